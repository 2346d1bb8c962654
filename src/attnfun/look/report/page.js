"use strict";
(() => {
  const content = JSON.parse(document.getElementById("content").textContent);
  Object.assign(chart.scales, content.scales);
  const find = (id) => document.getElementById(id);
  const shown = (value) => (Number.isFinite(value) ? Number(value.toPrecision(7)).toString() : "none");

  function drawFunction() {
    const chosen = find("output") ? Number(find("output").value) : 0;
    for (const [name, figure] of Object.entries(content.figures[chosen])) chart.draw(name, figure);
    mark();
  }

  // A line or a cross where the query is, if there are one or two variables.
  function mark() {
    if (!content.network || content.domain.lo.length > 2) return;
    const at = point(), flat = at.length === 2;
    chart.mark("values", flat ? [{ axis: "x", value: at[0] }, { axis: "y", value: at[1] }] : [{ axis: "x", value: at[0] }]);
  }

  function point() {
    const at = content.domain.point.slice();
    for (const slider of document.querySelectorAll("[data-axis]")) at[slider.dataset.axis] = Number(slider.value);
    return at;
  }

  function look() {
    const at = point(), place = content.heads[Number(find("head").value)];
    const weights = network.weights(at, place.layer, place.head, Number(find("token").value));
    const strongest = weights.map((weight, key) => [weight, key]).sort((a, b) => b[0] - a[0]).slice(0, content.most_keys);
    const keys = strongest.map(([, key]) => key).sort((a, b) => a - b);
    find("places").parentElement.hidden = !place.places; // before anything is drawn: it changes the width of the rest
    const name = (key) => (key < place.data ? `data token ${key}` : `memory token ${key - place.data}`);
    const bars = { type: "bar", x: keys, y: keys.map((key) => weights[key]), text: keys.map(name), marker: { color: "#0072B2" } };
    chart.draw("weights", { data: [bars], layout: content.weights_layout });
    const effective = Math.exp(-weights.reduce((sum, w) => sum + (w > 0 ? w * Math.log(w) : 0), 0));
    find("answer").textContent = `Network here: ${network.run(at).map(shown).join(", ")}. It looks at ${shown(effective)} of ${weights.length} keys, in effect.`;
    for (const slider of document.querySelectorAll("[data-axis]")) slider.previousElementSibling.textContent = shown(Number(slider.value));
    drawPlaces(place, weights, at);
    mark();
  }

  // Where keys lead, as far as that is known: heights on a line, colours in a plane.
  function drawPlaces(place, weights, at) {
    if (!place.places) return;
    const { keys, x, y } = place.places, amounts = keys.map((key) => weights[key]);
    const text = keys.map((key) => `key ${key}, weight ${shown(weights[key])}`);
    const common = { type: "scatter", mode: "markers", text, name: "keys" };
    const trace = y
      ? { ...common, x, y, marker: { color: amounts, colorscale: "cividis", cmin: 0, size: 10 } }
      : { ...common, x, y: amounts, marker: { color: "#0072B2", size: 7 } };
    const query = { type: "scatter", mode: "markers", x: [at[0]], y: [y ? at[1] : 0], name: "query", marker: { color: "#CC0000", size: 11 } };
    chart.draw("places", { data: [trace, query], layout: content.places_layout });
  }

  function changeHead() {
    const place = content.heads[Number(find("head").value)], token = find("token");
    token.replaceChildren(...place.tokens.map((number) => new Option(`token ${number}`, number)));
    token.value = place.token;
    token.parentElement.hidden = place.tokens.length < 2;
    look();
  }

  const network = content.network ? attnfun.load(content.network) : null;
  window.report = { content, network };
  if (find("output")) find("output").addEventListener("change", drawFunction);
  drawFunction();
  if (network) {
    find("head").addEventListener("change", changeHead);
    find("token").addEventListener("change", look);
    for (const slider of document.querySelectorAll("[data-axis]")) slider.addEventListener("input", look);
    changeHead();
  }
})();
