"use strict";
// Charts as SVG: lines, dots, bars and maps with axes, a legend and a reading under the pointer.
// A figure is { data, layout } as `figures.py` makes it. Text enters as text, never as markup.
const chart = (() => {
  const SVG = "http://www.w3.org/2000/svg", HEIGHT = 340, TOP = 10, BOTTOM = 46, BAR = 76, LETTER = 7.2;
  const scales = {};

  function add(parent, name, attributes = {}, text = null) {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== null) node.textContent = text;
    return parent.appendChild(node);
  }

  const known = (values) => values.filter((value) => value !== null && Number.isFinite(value));
  const ends = (values) => values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);

  // Multiples of 1, 2 or 5 times a power of ten between two numbers, at most about `most` of them.
  function ticks(low, high, most) {
    const rough = (high - low) / most, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((n) => n * power).find((size) => size >= rough * 0.999);
    const first = Math.ceil(low / step - 1e-9), last = Math.floor(high / step + 1e-9);
    return Array.from({ length: Math.max(0, last - first + 1) }, (_, k) => ({ value: (first + k) * step, text: written((first + k) * step, step) }));
  }

  // As many digits as tell neighbours apart.
  function written(value, step) {
    const size = Math.max(Math.abs(value), step), digits = Math.max(1, Math.ceil(Math.log10(size / step) + 1.001));
    if (value === 0) return "0";
    return size >= 1e5 || step < 1e-4 ? value.toExponential(Math.min(digits - 1, 15)).replace(/\.?0+e/, "e").replace("e+", "e") : String(Number(value.toPrecision(Math.min(digits, 17))));
  }

  // A range of its own for each axis; amounts begin at zero, and what does not vary has some room.
  function range(values, room, fromZero) {
    let [low, high] = ends(values);
    if (!Number.isFinite(low)) return [0, 1];
    if (fromZero && low >= 0) low = 0;
    if (high - low <= 1e-14 * Math.max(Math.abs(low), Math.abs(high))) return [low - (Math.abs(low) || 1) / 2, high + (Math.abs(high) || 1) / 2];
    const more = room * (high - low);
    return [low === 0 && fromZero ? 0 : low - more, high + more];
  }

  function colour(name, share) {
    const stops = scales[name.toLowerCase()], at = Math.min(Math.max(share, 0), 1) * (stops.length - 1), k = Math.min(Math.floor(at), stops.length - 2);
    return stops[k].map((part, i) => Math.round(part + (at - k) * (stops[k + 1][i] - part)));
  }
  const rgb = (parts) => `rgb(${parts.join(",")})`;

  // The numbers that colours stand for, and the name of their scale, where a trace has one.
  function coloured(trace) {
    const own = trace.type === "heatmap" ? { values: trace.z.flat(), name: trace.colorscale, low: trace.zmin, high: trace.zmax } : null;
    const marker = trace.marker && Array.isArray(trace.marker.color) ? { values: trace.marker.color, name: trace.marker.colorscale, low: trace.marker.cmin, high: trace.marker.cmax } : null;
    const found = own || marker;
    if (!found) return null;
    const [low, high] = ends(known(found.values)), least = found.low ?? low, most = found.high ?? high;
    return { name: found.name, low: least, high: most > least ? most : least + 1, share: (value) => (value - least) / ((most > least ? most : least + 1) - least) };
  }

  function cells(values) { // from half a cell before the first to half a cell behind the last
    const step = (values[values.length - 1] - values[0]) / Math.max(values.length - 1, 1) || 1;
    return [values[0] - step / 2, values[values.length - 1] + step / 2];
  }

  function picture(trace, scale) {
    const canvas = document.createElement("canvas"), rows = trace.z.length, columns = trace.z[0].length;
    Object.assign(canvas, { width: columns, height: rows });
    const context = canvas.getContext("2d"), image = context.createImageData(columns, rows);
    trace.z.forEach((row, i) => row.forEach((value, j) => {
      if (value !== null) image.data.set([...colour(scale.name, scale.share(value)), 255], 4 * ((rows - 1 - i) * columns + j));
    }));
    context.putImageData(image, 0, 0);
    return canvas.toDataURL();
  }

  function spans(data) {
    const map = data.find((trace) => trace.type === "heatmap");
    if (map) return [cells(map.x), cells(map.y)];
    const all = (name) => data.flatMap((trace) => known(trace[name]));
    const bars = data.some((trace) => trace.type === "bar"), dots = data.some((trace) => trace.mode === "markers");
    const [low, high] = range(all("x"), dots ? 0.04 : 0, false);
    return [bars ? [low - 0.6, high + 0.6] : [low, high], range(all("y"), 0.05, true)];
  }

  function legend(host, data) {
    const list = document.createElement("div");
    list.className = "legend";
    for (const trace of data) {
      const entry = list.appendChild(document.createElement("span")), key = entry.appendChild(document.createElement("i"));
      key.style.background = (trace.line || trace.marker).color;
      entry.append(trace.name);
    }
    host.appendChild(list);
  }

  function paint(host) {
    const { data, layout, marks } = host.figure, width = Math.max(host.clientWidth, 240);
    host.replaceChildren();
    const named = data.filter((trace) => trace.name && !(trace.marker && Array.isArray(trace.marker.color)));
    if (named.length > 1 && layout.showlegend !== false) legend(host, named);
    const [across, up] = spans(data), scale = data.map(coloured).find((each) => each), right = scale ? BAR : 14;
    const upTicks = ticks(...up, 6), left = 30 + LETTER * Math.max(...upTicks.map((tick) => tick.text.length), 1);
    const [wide, tall] = [across[1] - across[0], up[1] - up[0]], room = HEIGHT - BOTTOM - TOP;
    const unit = layout.equal ? Math.min((width - left - right) / wide, room / tall) : 0;
    const inner = unit ? unit * wide : width - left - right, top = TOP, bottom = TOP + (unit ? unit * tall : room);
    const svg = add(host, "svg", { width, height: bottom + BOTTOM, viewBox: `0 0 ${width} ${bottom + BOTTOM}` });
    const x = (value) => left + ((value - across[0]) / wide) * inner;
    const y = (value) => bottom - ((value - up[0]) / tall) * (bottom - top);
    const acrossTicks = ticks(...across, Math.max(2, Math.floor(inner / 60)));
    for (const tick of upTicks) {
      add(svg, "line", { class: "grid", x1: left, x2: left + inner, y1: y(tick.value), y2: y(tick.value) });
      add(add(svg, "g", { class: "ytick" }), "text", { x: left - 6, y: y(tick.value) + 4, "text-anchor": "end" }, tick.text);
    }
    for (const tick of acrossTicks) {
      add(svg, "line", { class: "grid", x1: x(tick.value), x2: x(tick.value), y1: top, y2: bottom });
      add(add(svg, "g", { class: "xtick" }), "text", { x: x(tick.value), y: bottom + 16, "text-anchor": "middle" }, tick.text);
    }
    add(svg, "text", { class: "xtitle", x: left + inner / 2, y: bottom + BOTTOM - 8, "text-anchor": "middle" }, layout.x);
    add(svg, "text", { class: "ytitle", transform: `translate(12 ${(top + bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, layout.y);
    for (const trace of data) draw(svg, trace, x, y, scale);
    for (const { axis, value } of marks) {
      const place = axis === "x" ? { x1: x(value), x2: x(value), y1: top, y2: bottom } : { x1: left, x2: left + inner, y1: y(value), y2: y(value) };
      add(svg, "line", { class: "mark", ...place });
    }
    if (scale) colours(svg, scale, left + inner + 14, top, bottom);
    follow(host, svg, data, x, y, { left, right: left + inner });
  }

  function draw(svg, trace, x, y, scale) {
    if (trace.type === "heatmap") {
      const [[x0, x1], [y0, y1]] = [cells(trace.x), cells(trace.y)];
      add(svg, "image", { href: picture(trace, scale), x: x(x0), y: y(y1), width: x(x1) - x(x0), height: y(y0) - y(y1), preserveAspectRatio: "none" });
    } else if (trace.type === "bar") {
      const half = Math.max(0.4 * (x(1) - x(0)), 0.5);
      trace.x.forEach((at, k) => add(svg, "rect", { x: x(at) - half, y: y(trace.y[k]), width: 2 * half, height: Math.max(y(0) - y(trace.y[k]), 0), fill: trace.marker.color }));
    } else if (trace.mode === "markers") {
      trace.x.forEach((at, k) => {
        if (at === null || trace.y[k] === null) return;
        const own = scale && Array.isArray(trace.marker.color), fill = own ? rgb(colour(scale.name, scale.share(trace.marker.color[k]))) : trace.marker.color;
        add(svg, "circle", { cx: x(at), cy: y(trace.y[k]), r: trace.marker.size / 2, fill, class: "dot" });
      });
    } else {
      let pen = "M";
      const path = trace.x.map((at, k) => {
        if (at === null || trace.y[k] === null) { pen = "M"; return ""; }
        const step = `${pen}${x(at).toFixed(1)} ${y(trace.y[k]).toFixed(1)}`;
        pen = "L";
        return step;
      }).join("");
      add(svg, "path", { d: path, fill: "none", stroke: trace.line.color, "stroke-width": trace.line.width, "stroke-opacity": trace.opacity ?? 1, "stroke-dasharray": trace.line.dash ? "7 4" : "none" });
    }
  }

  function colours(svg, scale, left, top, bottom) {
    const count = 64, step = (bottom - top) / count;
    for (let k = 0; k < count; k += 1) add(svg, "rect", { x: left, y: bottom - (k + 1) * step, width: 12, height: step + 0.5, fill: rgb(colour(scale.name, (k + 0.5) / count)) });
    for (const tick of ticks(scale.low, scale.high, 5)) {
      add(svg, "text", { class: "ctick", x: left + 17, y: bottom - scale.share(tick.value) * (bottom - top) + 4 }, tick.text);
    }
  }

  // What is drawn nearest to the pointer, in words.
  function follow(host, svg, data, x, y, { left, right }) {
    const tip = host.appendChild(document.createElement("div"));
    tip.className = "tip";
    tip.hidden = true;
    const short = (value) => (value === null ? "none" : String(Number(value.toPrecision(5))));
    const nearest = (values, at, place) => values.reduce((best, value, k) => (value !== null && Math.abs(place(value) - at) < Math.abs(place(values[best]) - at) ? k : best), 0);
    svg.addEventListener("pointerleave", () => { tip.hidden = true; });
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect(), at = event.clientX - box.left, high = event.clientY - box.top;
      tip.hidden = at < left || at > right;
      if (tip.hidden) return;
      tip.textContent = data.filter((trace) => trace.type === "heatmap" || trace.text || trace.name).map((trace) => {
        const k = nearest(trace.x, at, x);
        if (trace.type === "heatmap") { const row = nearest(trace.y, high, y); return `${short(trace.x[k])}, ${short(trace.y[row])}: ${short(trace.z[row][k])}`; }
        return trace.text ? `${trace.text[k]}: ${short(trace.y[k])}` : `${trace.name || ""} ${short(trace.x[k])}: ${short(trace.y[k])}`;
      }).join("\n");
      tip.style.left = `${Math.min(at + 12, box.width - tip.offsetWidth)}px`;
      tip.style.top = `${box.top - host.getBoundingClientRect().top + Math.max(high - tip.offsetHeight - 8, 0)}px`;
    });
  }

  const widths = new ResizeObserver((entries) => entries.forEach(({ target }) => { if (target.clientWidth !== target.drawnWidth) show(target); }));
  function show(host) {
    if (!host.clientWidth) return;
    host.drawnWidth = host.clientWidth;
    paint(host);
  }

  return {
    scales,
    draw(id, { data, layout }, marks = []) {
      const host = document.getElementById(id);
      host.classList.add("chart");
      Object.assign(host, { figure: { data, layout, marks }, data });
      widths.observe(host);
      show(host);
    },
    mark(id, marks) {
      const host = document.getElementById(id);
      host.figure.marks = marks;
      show(host);
    },
  };
})();
