"""Pictures show what they say: errors under bounds, weights that make the values, cells where tokens lead."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import LogNorm, to_rgb

import attnfun as af
from attnfun.cli import main
from attnfun.look.plots.compiled import suitable
from attnfun.look.views import cells, error_scale, heads, lines, look, peaks, weights
from cases import branching, swap_and_sum

SQUARE = {"x": (-1, 1), "y": (0, 1)}


@pytest.fixture(scope="module")
def nets() -> dict[str, af.types.Compiled]:
    cloud = np.random.default_rng(0).normal(size=(40, 3))
    return {
        "line": af.compile("sin(3*x)", {"x": (-1, 1)}, 0.1, construction="grid"),
        "plane": af.compile("[x*y, x + y]", SQUARE, 0.4, construction="cross"),
        "narrow": af.compile("x*y", {"x": (-1, 1), "y": (-1, 3)}, 0.4, construction="cross"),
        "step": af.compile("where(x < 0.3, 0, 1)", {"x": (0, 1)}, 0.1, norm=1),
        "circuit": af.compile("x*y + exp(z)", dict.fromkeys("xyz", (0, 1)), 0.1, construction="circuit"),
        "many": af.compile("x*y + z", dict.fromkeys("xyz", (0, 1)), 0.4, construction="grid"),
        "sequence": af.compile(
            swap_and_sum, af.Box([[-1]] * 2, [[1]] * 2), 0.9, construction="grid", options={"layout": "position"}
        ),
        "deep": af.compile(
            af.TruncatedLinear([[1.0, 2.0]] * 2, 0.0, -1, 1), af.Box([[-1] * 2] * 2, [[1] * 2] * 2), 1e-3
        ),
        "planes": af.compile(af.MaxAffine([[1.0, 0], [0, 1], [-1, -1]], [0.0] * 3), [(-1, 1)] * 2, 1e-3),
        "ring": af.compile("x*y", af.Region("x**2 + y**2 >= 0.3", {"x": (-1, 1), "y": (-1, 1)}), 0.5),
        "cloud": af.compile("x*y + z", af.Points(cloud, names="xyz"), 0.5),
        "estimated": af.compile(branching, [(0, 1)] * 2, 0.4, construction="cross"),
        "samples": af.compile(af.Samples(cloud, cloud[:, 0]), options={"tokens": 4, "polish": False, "folds": 2}),
    }


@pytest.mark.parametrize(
    ("name", "panels"),
    [
        ("line", ("values", "error", "weights")),
        ("plane", ("target", "values", "error", "cells", "weights")),
        ("step", ("values", "error", "weights")),
        ("circuit", ("values", "error", "circuit")),
        ("many", ("values", "error", "weights")),
        ("sequence", ("target", "values", "error", "cells", "weights", "tokens")),
        ("deep", ("values", "error", "weights", "tokens")),
        ("planes", ("target", "values", "error", "cells", "weights")),
        ("ring", ("target", "values", "error", "cells", "weights")),
        ("cloud", ("values", "error", "weights")),
        ("estimated", ("target", "values", "error", "cells", "weights")),
        ("samples", ("values", "held-out", "residuals", "weights")),
    ],
)
def test_every_network_gets_the_panels_that_suit_it(nets, name, panels):
    figure = nets[name].plot()
    assert suitable(look(nets[name])) == panels
    titled = [axes for axes in figure.axes if axes.get_title() or axes.texts]
    assert len(titled) == len(panels)
    assert nets[name].certificate.headline in figure.get_suptitle()


def test_curves_of_the_error_stay_under_the_line_of_the_bound(nets):
    for name, count in (("line", 1), ("many", 3)):
        axes = nets[name].plot(panels=["error"]).axes[0]
        *errors, bound = (np.asarray(curve.get_ydata()) for curve in axes.lines)
        assert len(errors) == count
        assert (np.concatenate(errors) <= bound[0]).all()
        assert np.max(errors) > 0.1 * bound[0]
        assert bound[0] == nets[name].certificate.bound


def test_a_bound_in_the_mean_is_drawn_over_the_error_that_gathers(nets):
    axes = nets["step"].plot(panels=["error"]).axes[0]
    labels = [curve.get_label() for curve in axes.lines]
    assert labels == ["|error|", "L_1 error so far", "L_1 bound (proved)"]
    error, gathered, bound = (np.asarray(curve.get_ydata()) for curve in axes.lines)
    assert error.max() > bound[0]  # at the jump: no pointwise bound
    assert (np.diff(gathered) >= 0).all()
    assert 0 < gathered[-1] <= bound[0]


def test_an_estimate_is_not_called_a_bound(nets):
    title = nets["estimated"].plot(panels=["error"]).axes[0].get_title()
    assert "estimate" in title
    assert "bound" not in title


def test_maps_and_lines_show_the_network(nets):
    image = nets["plane"].plot(panels=["values"], output=1).axes[0].images[0]
    assert image.get_array()[3, 5] == nets["plane"](np.array([-1 + 5 / 80, 3 / 160]))[1]
    found = lines(look(nets["many"], at=[0.25, 0.75, 0.5]), most=2)
    assert [line.names for line in found] == [("z",), ("x",)]
    assert found[1].network[0] == nets["many"]([0.0, 0.75, 0.5])


def test_outside_a_region_there_is_nothing(nets):
    shown = np.ma.filled(nets["ring"].plot(panels=["error"]).axes[0].images[0].get_array(), np.nan)
    assert np.isnan(shown[80, 80])
    assert np.nanmax(shown) <= nets["ring"].certificate.bound
    assert nets["ring"].domain.contains(look(nets["ring"]).point[None])[0]


@pytest.mark.parametrize("name", ["line", "plane", "many", "sequence"])
def test_weights_average_values_to_what_the_network_says(nets, name):
    window = look(nets[name])
    place, rows = heads(nets[name].network)[0], window.domain.sample(7, np.random.default_rng(0))
    shares = weights(window, rows, place)  # (B, T)
    assert np.allclose(shares.sum(axis=1), 1.0)
    values = place.attention.values()[place.head][:, 0]  # (M,)
    assert np.allclose(shares[:, -len(values) :] @ values, window.values(rows)[0])
    assert np.array_equal(peaks(window, rows, place), shares.max(axis=0))


@pytest.mark.parametrize("name", ["plane", "sequence", "planes", "line"])
def test_cells_are_where_keys_have_the_largest_weight(nets, name):
    window, place = look(nets[name]), heads(nets[name].network)[0]
    found = cells(window, place, tuple(range(window.domain.size)))
    rows = window.domain.sample(200, np.random.default_rng(0))
    leading = found.keys[found.partition.cell_of(rows)]
    shares = weights(window, rows, place)
    assert np.allclose(shares[np.arange(200), leading], shares.max(axis=1))


def test_heads_whose_scores_bend_have_no_cells(nets):
    window = look(af.compile("exp(x*y)", SQUARE, 0.1, construction="circuit"))
    first, *_, last = sorted(heads(window.net.network), key=lambda place: place.layer)
    assert cells(window, first, (0, 1)) is not None
    assert cells(window, last, (0, 1)) is None


def test_a_circuit_shows_its_heads_and_names(nets):
    axes = nets["circuit"].plot(panels=["circuit"]).axes[0]
    texts = [text.get_text() for text in axes.texts]
    assert {"x", "y", "z", "exp(z)", "output"} <= set(texts)
    assert f"{nets['circuit'].network.heads} heads" in axes.get_title()


def test_titles_count_the_tokens_of_the_network(nets):
    made = nets["step"]
    assert made.network.attention[0].attends_data
    title = made.plot(panels=["weights"]).axes[0].get_title()
    assert title == f"attention to itself and {made.network.tokens} tokens"
    assert made.plot(panels=["error"]).axes[0].get_title() == "error"  # the heading says the bound
    bend = af.compile("abs(x - 0.25)", {"x": (-1, 1)}, 1e-3, construction="circuit")
    assert "1 head (" in bend.plot(panels=["circuit"]).axes[0].get_title()
    assert ", 1 token, " in repr(bend)
    assert bend.plot(panels=["circuit"]).get_figheight() < nets["circuit"].plot(panels=["circuit"]).get_figheight()


def test_formulas_in_titles_are_not_read_as_mathematics():
    net = af.compile("x", {"x": (0, 1)}, 0.1)
    assert net.plot(panels=["values"]) is not None
    claim = replace(net.certificate.claim, description={"kind": "x", "text": r"$\frac{$ <b>"})
    odd = replace(net, certificate=replace(net.certificate, claim=claim))
    odd.plot(panels=["values"]).draw_without_rendering()


def test_a_saved_black_box_is_drawn_without_its_code(nets, tmp_path):
    nets["estimated"].save(tmp_path / "f.safetensors")
    with pytest.raises(SystemExit) as left:
        main(["plot", str(tmp_path / "f.safetensors"), "--panel", "error"])
    assert left.value.code == 0
    assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")
    axes = af.load(tmp_path / "f.safetensors").plot(panels=["error"]).axes[0]
    assert "not at hand" in axes.texts[0].get_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"panels": ["valuse"]}, "panels must be one of target, values, error, .*Did you mean 'values'"),
        ({"panels": "error"}, "in a list"),
        ({"panels": []}, "panels must be"),
        ({"path": "error"}, r'Write panels=\["error"\]'),
        ({"output": 2}, "from 0 to 1"),
        ({"style": "poster"}, "style must be one of page, dark, talk"),
        ({"at": [0.5, 5.0]}, "must lie in"),
        ({"at": [[0.5, 0.5]] * 2}, "one point"),
    ],
)
def test_bad_requests_are_refused(nets, arguments, message):
    with pytest.raises(af.errors.InputError, match=message):
        nets["plane"].plot(**arguments)


def boxes_of(texts) -> list:
    """Where texts that are seen stand on the canvas."""
    return [text.get_window_extent() for text in texts if text.get_visible() and text.get_text()]


def overlapping(boxes) -> list:
    return [(a, b) for k, a in enumerate(boxes) for b in boxes[k + 1 :] if a.overlaps(b)]


@pytest.mark.parametrize(
    ("name", "style"),
    [(name, "page") for name in ("line", "plane", "narrow", "step", "circuit", "many", "cloud", "samples")]
    + [("step", "talk"), ("plane", "talk")],
)
def test_legends_are_off_the_curves_and_labels_do_not_touch(nets, name, style):
    figure = nets[name].plot(style=style)
    figure.draw_without_rendering()
    for axes in figure.axes:
        title, frame = axes.title.get_window_extent(), axes.get_window_extent()
        assert title.y0 >= frame.y1
        for axis in (axes.xaxis, axes.yaxis) if axes.axison else ():
            assert overlapping(boxes_of(axis.get_ticklabels())) == []
        if legend := axes.get_legend():
            place = legend.get_window_extent()
            assert place.y0 >= frame.y1
            assert place.y1 <= title.y0 + 1
            labels = [text.get_text() for text in legend.get_texts()]
            assert len(set(labels)) == len(labels)
    heading = figure._suptitle.get_window_extent()  # type: ignore[attr-defined]
    assert heading.y0 >= max(axes.title.get_window_extent().y1 for axes in figure.axes) - 1


def test_errors_of_a_plane_have_a_scale_of_their_own(nets):
    """Where a bound is far above the errors, a panel on the bound's scale is of one colour."""
    net = nets["plane"]
    net = replace(net, certificate=replace(net.certificate, bound=100 * net.certificate.bound))
    target, values, error = net.plot(panels=["target", "values", "error"]).axes
    assert values.images[0].get_clim() == target.images[0].get_clim()
    assert error.images[0].get_clim()[1] == np.nanmax(error.images[0].get_array()) < net.certificate.bound / 10
    assert f"bound {net.certificate.bound:.3g} (proved)" in error.get_title()
    assert all(axes.get_aspect() == 1.0 for axes in (target, values, error))
    long = af.compile("x + y", {"x": (0, 1), "y": (0, 100)}, 1)
    assert long.plot(panels=["values"]).axes[0].get_aspect() == "auto"


def test_errors_that_span_decades_are_drawn_logarithmically():
    low, high, logarithmic = error_scale(np.append(np.full(50, 1e-5), np.geomspace(1e-9, 1.0, 50)))
    assert (low, high, logarithmic) == (1e-6, 1.0, True)
    assert error_scale(np.array([0.0, np.nan])) == (0.0, 1.0, False)
    size = {"tokens": 64}
    peak = af.compile(
        "exp(-99*(x**2 + y**2))", {"x": (-1, 1), "y": (-1, 1)}, construction="cross", options=size, proof=False
    )
    assert isinstance(peak.plot(panels=["error"]).axes[0].images[0].norm, LogNorm)


@pytest.mark.parametrize(
    ("text", "ranges"), [("log(x)", {"x": (0, 1)}), ("1/sqrt(x**2+y**2)", {"x": (-1, 1), "y": (-1, 1)})]
)
def test_poles_leave_room_for_the_other_values(text, ranges, tmp_path):
    net = af.compile(text, ranges, norm=1, construction="grid", options={"tokens": 64}, proof=False)
    window = look(net)
    plane = window.slice(tuple(range(len(ranges))), 161)
    assert window.has_poles
    assert plane.target is not None
    assert np.isnan(plane.target).sum() == 1
    low, high = window.ends(plane.network, plane.target)
    shares = (plane.target - low) / (high - low)
    assert ((shares > 0) & (shares < 1)).mean() > 0.95
    assert np.nanstd(np.clip(shares, 0, 1)) > 0.05
    net.plot(tmp_path / "f.png")
    net.report(tmp_path / "f.html")


def test_sections_are_taken_where_the_function_varies_and_say_where_they_are():
    net = af.compile("x*y*z", dict.fromkeys("xyz", (-1, 1)), 0.05)
    centre, chosen = look(net, at=[0, 0, 0]), look(net)
    assert max(np.ptp(line.network) for line in lines(centre, 3)) < 1e-6  # the centre is a zero of the function
    assert min(np.ptp(line.network) for line in lines(chosen, 3)) > 0.2
    label = net.plot(panels=["values"]).axes[0].get_xlabel()
    assert all(f"{name}={value:.3g}" in label for name, value in zip("xyz", chosen.point, strict=True))


def test_one_colour_has_one_meaning(nets):
    values, error, _ = nets["many"].plot().axes
    colours = {
        line.get_label(): line.get_color() for line in (*values.lines, *error.lines) if line.get_label()[0] != "_"
    }
    assert {"x", "y", "z", "target", "bound (proved)"} <= set(colours)
    assert len(set(colours.values())) == len(colours)
    both = [{line.get_label(): line.get_color() for line in axes.lines} for axes in (values, error)]
    assert all(both[0][name] == both[1][name] for name in "xyz")


def test_data_are_drawn_with_what_held_out_rows_got(nets):
    target = nets["samples"].certificate.claim.target
    values, held_out, residuals, _ = nets["samples"].plot().axes
    measured, predicted = (np.asarray(numbers) for numbers in held_out.lines[0].get_data())
    assert np.array_equal(measured, target.samples.y[:, 0])
    assert np.array_equal(predicted - measured, residuals.lines[0].get_ydata())
    assert f"RMSE {target.study.rmse:.3g}" in residuals.get_title()
    assert values.get_title() == "attention network"
    X = np.linspace(0, 1, 20)[:, None]
    line = af.compile(af.Samples(X, X[:, 0] ** 2), options={"tokens": 2, "polish": False, "folds": 2})
    data = {drawn.get_label(): drawn for drawn in line.plot(panels=["values"]).axes[0].lines}["data"]
    assert np.array_equal(data.get_ydata(), X[:, 0] ** 2)


def test_a_picture_for_a_talk_shows_the_function_in_large_type(nets):
    page, talk = (nets["line"].plot(style=style) for style in ("page", "talk"))
    assert len(talk.axes) == 2
    points = [label.get_fontsize() for label in talk.axes[0].get_xticklabels()]
    high = talk.get_size_inches()[1]
    assert min(points) / 72 / high > 0.04  # of the height of the slide
    assert max(label.get_fontsize() for label in page.axes[0].get_xticklabels()) < 10


def test_pictures_for_dark_pages_have_light_words_and_the_same_colours(nets):
    for name in ("line", "circuit"):
        light, dark = (nets[name].plot(style=style) for style in ("page", "dark"))
        assert np.mean(to_rgb(dark.get_facecolor())) < 0.2 < 0.8 < np.mean(to_rgb(light.get_facecolor()))
        for before, after in zip(light.axes, dark.axes, strict=True):
            assert min(np.mean(to_rgb(text.get_color())) for text in (after.title, *after.texts)) > 0.8
            shown = [text.get_bbox_patch().get_facecolor() for text in after.texts if text.get_bbox_patch()]
            assert all(np.mean(to_rgb(colour)) < 0.2 for colour in shown)
            if before.get_title() in ("error", "attention network"):
                assert [each.get_color() for each in before.lines] == [each.get_color() for each in after.lines]


def test_a_file_says_what_it_shows(nets, tmp_path):
    from PIL import Image

    nets["line"].plot(tmp_path / "f.png", panels=["values"])
    with Image.open(tmp_path / "f.png") as image:
        assert "sin(3*x)" in image.info["Title"]


def test_sections_show_each_variable_that_matters():
    net = af.compile("sin(x*y) + z**2", {"x": (-1, 1), "y": (0, 1), "z": (-1, 2)}, 0.01)
    drawn = {line.names[0]: np.ptp(line.network) for line in lines(look(net), 3)}
    assert min(drawn.values()) > 0.2  # through the centre, x = 0, it is constant in y
