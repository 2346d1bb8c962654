"""The command line: arguments in, library, words or JSON out.

Exit codes: 0 fine, 2 bad input, 3 tolerance or proof not reached.
"""

from __future__ import annotations

import csv
import json
import re
import signal
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NoReturn

import numpy as np
import typer
from rich.console import Console
from rich.progress import Progress

import attnfun as af
from attnfun.compiled import refuse_other_format
from attnfun.constructions.planner import BUDGET
from attnfun.domains.box import read_box, read_ranges
from attnfun.errors import AttnfunError, require
from attnfun.given import NetworkCertificate
from attnfun.given.claim import is_claim, judge_saved
from attnfun.look.plots.style import picture_format
from attnfun.network.storage import refuse_place
from attnfun.proofs import Certificate
from attnfun.resources.deadline import TIME_LIMIT, Deadline

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
notes = Console(stderr=True)

BAD_INPUT, NOT_REACHED = 2, 3

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
FileArgument = Annotated[Path, typer.Argument(help="A file written by attnfun compile.")]


def _tell_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"attnfun {af.__version__}")
        raise typer.Exit


@app.callback()
def attnfun(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_tell_version, is_eager=True)
    ] = False,
) -> None:
    """Turn functions into attention networks, with a proof of how close they are."""


@app.command("compile")
def compile_command(
    formula: Annotated[
        str, typer.Argument(help='A formula, as "sin(3*x)*y", or several, as "\\[x*y, x+y]".', show_default=False)
    ],
    domain: Annotated[
        list[str], typer.Option("--domain", "-d", help="Ranges, as x=-1:1 (repeat, or separate by spaces).")
    ],
    eps: Annotated[float | None, typer.Option(help="The tolerance; without it, give a size: -O tokens=500.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write it: f.safetensors, or f.onnx for ONNX.")
    ] = None,
    dtype: Annotated[str, typer.Option(help="Arithmetic of the deployed network.")] = "float64",
    construction: Annotated[str, typer.Option(help="auto, or the name of a theorem.")] = "auto",
    budget: Annotated[int, typer.Option(help="Memory tokens allowed.")] = BUDGET,
    time_limit: Annotated[float, typer.Option(help="Seconds allowed.")] = TIME_LIMIT,
    memory_limit: Annotated[
        float | None,
        typer.Option(help="Bytes that the largest arrays may take; half of the machine's memory if not given."),
    ] = None,
    relative: Annotated[bool, typer.Option("--relative", help="eps is a fraction of the largest value.")] = False,
    norm: Annotated[str, typer.Option(help="inf for the largest error, or the p of L_p.")] = "inf",
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-O", help="An option of the construction, as tokens=500 (repeat)."),
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="A folder for the state of an interrupted proof; the same command continues.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Where to write a picture (png, pdf, svg).")] = None,
    as_json: AsJson = False,
) -> None:
    """Compile a formula, prove its error, write the network."""
    for path in filter(None, (output, plot)):
        refuse_place(path)
    as_onnx = output is not None and output.suffix.lower() == ".onnx"
    if as_onnx:
        require("onnx", "onnx")
    elif output is not None:
        refuse_other_format(output)
    if plot is not None:
        picture_format(plot)
    with notes.status(f"compiling {formula}") as status:
        net = af.compile(
            formula,
            read_ranges(" ".join(domain)),
            eps,
            norm=_number(norm),
            relative=relative,
            dtype=dtype,
            construction=construction,
            budget=budget,
            time_limit=time_limit,
            memory_limit=memory_limit,
            options=_read_options(option or ()),
            checkpoint=checkpoint,
            progress=lambda p: status.update(f"proving: bound {p.bound:.3g}, {p.boxes} boxes"),
        )
    if output is not None:
        (net.to_onnx if as_onnx else net.save)(output)
    if plot is not None:
        net.plot(plot)
    _report(net, as_json)


@app.command()
def verify(
    file: FileArgument,
    engine: Annotated[
        str,
        typer.Option(help="interval, or arb: then the judge, which shares no code with attnfun, checks it too."),
    ] = "interval",
    time_limit: Annotated[float, typer.Option(help="Seconds allowed.")] = TIME_LIMIT,
    as_json: AsJson = False,
) -> None:
    """Check the stored proof of a saved network against its weights, or search for one where none is stored.

    What ranges, certify or compare wrote of given networks is checked by the judge.
    """
    if is_claim(file):
        verdict = judge_saved(file, Deadline.of(time_limit))
        _print(asdict(verdict) if as_json else str(verdict))
        if not verdict.agreed:
            raise typer.Exit(NOT_REACHED)
        return
    net = af.load(file)
    proof = net.certificate.proof
    with notes.status("searching for a proof" if proof is None else "checking the stored proof"):
        again = net.certificate.recheck(engine=engine, time_limit=time_limit)
    searched = "no proof is stored: a search was made again"
    how = searched if proof is None else f"the stored proof was checked, {proof.leaves} boxes"
    holds = f"{file}: the stated bound {net.certificate.bound:.6g} holds again ({how})"
    _print(again.as_dict() if as_json else f"{holds}\n{again}")


@app.command("eval", context_settings={"ignore_unknown_options": True})
def evaluate(
    file: FileArgument,
    points: Annotated[
        list[str] | None, typer.Argument(help="Points, as 0.5,-1 (coordinates separated by commas).")
    ] = None,
    table: Annotated[Path | None, typer.Option("--csv", help="A CSV file with one column per variable.")] = None,
    outside: Annotated[str | None, typer.Option(help="raise, clip or allow points outside the domain.")] = None,
    as_json: AsJson = False,
) -> None:
    """Evaluate a saved network at points from arguments, a CSV file, or standard input (one point a line)."""
    net = af.load(file)
    rows = _read_points(net, points, table)
    values = net(net.domain.unflatten(rows), outside=outside)  # type: ignore[arg-type]
    if as_json:
        _print(values.tolist())
    else:
        for value in values.reshape(len(rows), -1):
            _print(",".join(repr(float(number)) for number in value))


@app.command()
def info(
    file: FileArgument,
    proof: Annotated[bool, typer.Option("--proof", help="Show the stored proof: its rules and their data.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say what a saved network is and what is proved about it."""
    net = af.load(file)
    if not proof:
        _report(net, as_json)
        return
    stored = net.certificate.proof
    if as_json:
        _print(None if stored is None else stored.as_dict())
    else:
        _print("no proof is stored" if stored is None else f"{stored}\n{stored.leaves} boxes, {stored.size} bytes")


NetworkArgument = Annotated[Path, typer.Argument(help="An ONNX file, or a file written by attnfun compile.")]
DomainOption = Annotated[
    list[str], typer.Option("--domain", "-d", help="Ranges of all inputs, as x=-1:1 (repeat, or separate by spaces).")
]
DtypeOption = Annotated[
    str | None, typer.Option(help="float64, float32, or exact for real arithmetic; the network's own if not given.")
]
TimeOption = Annotated[float, typer.Option(help="Seconds allowed.")]
ClaimOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Write networks and bounds to a file, for attnfun verify and the judge."),
]


def _save_claim(certificate: Certificate | NetworkCertificate, path: Path) -> None:
    if not isinstance(certificate, NetworkCertificate):
        raise af.errors.InputError(
            "a certificate of a compiled network is saved with the network, by attnfun compile",
            got=str(path),
            remedy="Leave -o out.",
        )
    certificate.save(path)


@app.command("ranges")
def ranges_command(
    network: NetworkArgument,
    domain: DomainOption,
    dtype: DtypeOption = None,
    time_limit: TimeOption = TIME_LIMIT,
    output: ClaimOption = None,
    as_json: AsJson = False,
) -> None:
    """Enclose all outputs of a network over a box of inputs."""
    with notes.status(f"enclosing {network}"):
        found = af.ranges(network, read_box(" ".join(domain)), dtype=dtype, time_limit=time_limit)
    if output is not None:
        _save_claim(found.certificate, output)
    _print(found.as_dict() if as_json else str(found))


@app.command("certify")
def certify_command(
    network: NetworkArgument,
    domain: DomainOption,
    target: Annotated[str | None, typer.Argument(help='A formula, as "sin(3*x)", or another network.')] = None,
    require: Annotated[
        list[str] | None,
        typer.Option(help="A condition on outputs instead, as y0=-1:1 or y0>y1+0.1 (repeat)."),
    ] = None,
    eps: Annotated[float | None, typer.Option(help="The error to prove; exit status 3 if that fails.")] = None,
    dtype: DtypeOption = None,
    time_limit: TimeOption = TIME_LIMIT,
    output: ClaimOption = None,
    as_json: AsJson = False,
) -> None:
    """Prove the largest error of a network against a formula, or a condition on its outputs."""
    conditions = _read_conditions(require) if require else None
    with notes.status(f"certifying {network}"):
        shown = af.certify(
            network, target, read_box(" ".join(domain)), requirement=conditions, eps=eps, dtype=dtype,
            time_limit=time_limit,
        )  # fmt: skip
    if output is not None:
        _save_claim(shown, output)
    _print(shown.as_dict() if as_json else str(shown))


@app.command("compare")
def compare_command(
    first: NetworkArgument,
    second: NetworkArgument,
    domain: DomainOption,
    eps: Annotated[float | None, typer.Option(help="The difference to prove; exit status 3 if that fails.")] = None,
    dtype: DtypeOption = None,
    time_limit: TimeOption = TIME_LIMIT,
    output: ClaimOption = None,
    as_json: AsJson = False,
) -> None:
    """Prove the largest difference between two networks."""
    with notes.status(f"comparing {first} and {second}"):
        shown = af.compare(
            first, second, read_box(" ".join(domain)), eps=eps, dtype=dtype, time_limit=time_limit
        )  # fmt: skip
    if output is not None:
        _save_claim(shown, output)
    _print(shown.as_dict() if as_json else str(shown))


@app.command()
def export(
    file: FileArgument,
    to: Annotated[
        str,
        typer.Option(
            help="onnx; torch, jax, transformer-lens: a Python file with weights beside it; huggingface: a folder."
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write, as f.onnx, f.py or a folder; beside FILE.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a saved network for another framework; what is written runs without attnfun."""
    net = af.load(file)
    ending = {"onnx": ".onnx", "huggingface": "_huggingface"}.get(to, f"_{to.replace('-', '_')}.py")
    beside = file.with_name(file.stem + ending)
    written = [str(path) for path in net.export(output or beside, to)]
    _print(written if as_json else "\n".join(written))


@app.command()
def plot(
    file: FileArgument,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write, as f.png, f.pdf or f.svg; beside FILE.")
    ] = None,
    panel: Annotated[
        list[str] | None,
        typer.Option(
            help="target, values, error, cells, weights, tokens, circuit or layers (repeat); default: those that suit."
        ),
    ] = None,
    component: Annotated[int, typer.Option(help="Which output of a vector or sequence, from 0.")] = 0,
    style: Annotated[str, typer.Option(help="page, dark, or talk: large type, the function only.")] = "page",
    as_json: AsJson = False,
) -> None:
    """Draw a saved network: its values and error, cells and weights, or its circuit."""
    path = output or file.with_suffix(".png")
    af.load(file).plot(path, panels=panel, output=component, style=style)
    _print([str(path)] if as_json else str(path))


Component = Annotated[int | None, typer.Option(help="Which output of a vector or sequence, from 0.")]
Tolerance = Annotated[float, typer.Option(help="The width at which work stops, relative to the values.")]
Seconds = Annotated[float, typer.Option("--time-limit", help="Seconds allowed.")]


ENCLOSED = {
    "integrate": "Enclose the integral over the domain, of the target and of a saved network.",
    "max": "Enclose the largest value on the domain and where it is taken, of the target and of a saved network.",
    "min": "Enclose the smallest value on the domain and where it is taken, of the target and of a saved network.",
}
"""Commands that enclose a number, by the method of networks that they call."""


def _enclosing(method: str) -> Callable[..., None]:
    def command(
        file: FileArgument,
        component: Component = None,
        tolerance: Tolerance = 1e-12,
        time_limit: Seconds = TIME_LIMIT,
        as_json: AsJson = False,
    ) -> None:
        found = getattr(af.load(file), method)(output=component, tolerance=tolerance, time_limit=time_limit)
        _answer(found, as_json)

    return command


for method, words in ENCLOSED.items():
    app.command(method, help=words)(_enclosing(method))


@app.command()
def roots(
    file: FileArgument, component: Component = None, time_limit: Seconds = TIME_LIMIT, as_json: AsJson = False
) -> None:
    """Enclose the roots of the target of a saved network in one variable."""
    _answer(af.load(file).roots(output=component, time_limit=time_limit), as_json)


@app.command()
def report(
    file: FileArgument,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write, as f.html; beside FILE.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write one HTML page about a saved network, to be opened from disk."""
    path = output or file.with_suffix(".html")
    af.load(file).report(path)
    _print([str(path)] if as_json else str(path))


@app.command()
def reproduce(
    names: Annotated[list[str] | None, typer.Argument(help="Experiments, as --list shows them; all if none.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer and smaller networks: two minutes for all.")] = False,
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to write to.")] = Path("reproduced"),
    show: Annotated[bool, typer.Option("--list", help="List the experiments and stop.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run the theorems' and the papers' experiments again; write tables (Markdown, CSV) and plots (PNG)."""
    from attnfun import experiments

    chosen = experiments.named(names or [])
    if show:
        listed = {one.name: one.title for one in chosen}
        _print(listed if as_json else "\n".join(f"{name:18} {title}" for name, title in listed.items()))
        return
    missing = experiments.missing(chosen)
    if missing and names:
        raise next(iter(missing.values()))
    for name, reason in missing.items():
        notes.print(f"left out: {name}: {reason}", style="yellow", markup=False, highlight=False)
    runnable = [one for one in chosen if one.name not in missing]
    written: dict[str, list[str]] = {}
    with Progress(console=notes, transient=True) as bar:
        task = bar.add_task("", total=len(runnable))
        told = partial(bar.update, task)
        for one, _, files in experiments.reproduce(runnable, output, quick, lambda doing: told(description=doing)):
            bar.advance(task)
            written[one.name] = [str(path) for path in files]
    left_out = {name: str(reason) for name, reason in missing.items()}
    pages = "\n".join(files[-1] for files in written.values())
    _print({"written": written, "left_out": left_out} if as_json else pages)


@app.command()
def zoo(
    words: Annotated[list[str], typer.Argument(metavar="DIR | score DIR CLAIMS", help="Write a folder, or score.")],
    quick: Annotated[bool, typer.Option("--quick", help="Only the four small models, in seconds.")] = False,
    model: Annotated[list[str] | None, typer.Option(help="A model by name (repeat); all if none.")] = None,
    disguise: Annotated[
        str, typer.Option(help="split, scale, permute, rotate, noise, separated by commas; or none.")
    ] = "split,scale,permute,rotate",
    seed: Annotated[int, typer.Option(min=0, help="Seed of disguises and points.")] = 0,
    check: Annotated[
        bool, typer.Option("--check", help="Compare a folder with its manifest instead of writing one.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write models with a known mechanism and the answers about them, check such a folder, or score claims."""
    from attnfun.zoo import catalogue, folder, scoring

    if words[0] == "score" and len(words) == 3:
        scores = scoring.score(Path(words[1]), scoring.read_claims(Path(words[2])))
        as_dicts = {name: each.as_dict() for name, each in scores.items()}
        _print(as_dicts if as_json else scoring.table(scores))
        return
    if len(words) != 1:
        raise af.errors.InputError(
            "the arguments must be a folder, or score, a folder and a file of claims", got=" ".join(words)
        )
    path = Path(words[0])
    if check:
        count = folder.check(path)
        _print({"files": count} if as_json else f"{path}: all {count} files are as the manifest says")
        return
    disguises = [] if disguise == "none" else disguise.split(",")
    with Progress(console=notes, transient=True) as bar:
        task = bar.add_task("", total=len(catalogue.chosen(model or [], quick)))

        def tell(name: str) -> None:
            bar.update(task, description=name)
            bar.advance(task)

        manifest = folder.write(path, names=model or [], quick=quick, seed=seed, disguises=disguises, tell=tell)
    titles = "\n".join(f"{path / name}: {known['title']}" for name, known in manifest["models"].items())
    _print(manifest["models"] if as_json else titles)


@app.command()
def lab(
    port: Annotated[int, typer.Option(help="Where the page is served, on this machine only.")] = 7860,
    seconds: Annotated[float, typer.Option(help="Seconds that a request may take.")] = 60.0,
    gigabytes: Annotated[float, typer.Option(help="Memory that a request may take.")] = 4.0,
    show: Annotated[bool, typer.Option("--show/--no-show", help="Open the page in a browser.")] = True,
) -> None:
    """Serve a page for experiments: formulas, sliders, a gallery, downloads."""
    from attnfun.lab import launch
    from attnfun.lab.worker import Limits

    for stop in (signal.SIGINT, signal.SIGTERM):  # jobs in the background of a shell ignore the first one
        signal.signal(stop, signal.default_int_handler)
    launch(port, Limits(seconds=seconds, memory=int(gigabytes * 2**30)), show=show)


def _report(net: af.types.Compiled, as_json: bool) -> None:
    if as_json:
        _print({"summary": net.summary().as_dict(), "certificate": net.certificate.as_dict()})
    else:
        _print(f"{net.summary()}\n\n{net.certificate}")


def _answer(answer: Any, as_json: bool) -> None:
    _print(answer.as_dict() if as_json else str(answer))


def _print(value: Any) -> None:
    typer.echo(value if isinstance(value, str) else json.dumps(value))


def _read_options(parts: Iterable[str]) -> dict[str, Any]:
    """`tokens=500` -> a name and a whole number, another number, or words."""
    options: dict[str, Any] = {}
    for part in parts:
        name, equals, value = part.partition("=")
        if not (name and equals and value) or name in options:
            raise af.errors.InputError(
                "each --option must be one name and its value", got=part, remedy="Write tokens=500."
            )
        options[name] = _number(value)
    return options


def _read_conditions(parts: Iterable[str]) -> dict[Any, Any]:
    """`y0=-1:1` -> an interval of an output, `y0>y1+0.1` -> a margin of one above another."""
    conditions: dict[Any, Any] = {}
    for part in parts:
        words = part.replace(" ", "")
        interval = re.fullmatch(r"y(\d+)=([^:]*):([^:]*)", words)
        margin = re.fullmatch(r"y(\d+)>y(\d+)(?:\+(.*))?", words)
        try:
            if interval:
                key, value = int(interval[1]), tuple(float(end) if end else None for end in interval.groups()[1:])
            elif margin:
                key, value = (int(margin[1]), int(margin[2])), float(margin[3] or 0)
            else:
                raise ValueError
        except ValueError:
            raise af.errors.InputError(
                "each condition must be an interval of an output or a margin between two", got=part,
                remedy="Write y0=-1:1, y0=:1 or y0>y1+0.1.",
            ) from None  # fmt: skip
        if key in conditions:
            raise af.errors.InputError("each output, or pair of outputs, may have one condition", got=part)
        conditions[key] = value
    return conditions


def _number(words: str) -> int | float | str:
    """The number that the words are, or the words."""
    for kind in (int, float):
        try:
            number = kind(words)
        except ValueError:
            continue
        return number if np.isfinite(number) else words
    return words


def _read_points(net: af.types.Compiled, points: list[str] | None, table: Path | None) -> Any:
    """Rows (B, D) from arguments, a CSV file with a header, or standard input."""
    axes = net.domain.axes
    if table is not None:
        try:
            with table.open(newline="") as file:
                reader = csv.DictReader(file)
                missing = set(axes) - set(reader.fieldnames or ())
                if missing:
                    raise af.errors.InputError(
                        f"{table} needs a column for each of {', '.join(axes)}", got=reader.fieldnames
                    )
                lines = [",".join(row[name] or "" for name in axes) for row in reader]
        except OSError as reason:
            raise af.errors.InputError(f"{table} must be readable", got=str(reason)) from None
    else:
        for name in [point for point in points or () if point.endswith(".csv")]:
            raise af.errors.InputError("points must be numbers", got=name, remedy=f"Write --csv {name} for a table.")
        lines = points if points else [line for line in sys.stdin if line.strip()]
    rows = [_read_point(line, len(axes)) for line in lines]
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(axes))


def _read_point(line: str, size: int) -> list[float]:
    try:
        numbers = [float(part) for part in line.replace(",", " ").split()]
    except ValueError:
        numbers = []
    if len(numbers) != size:
        wanted = "one number" if size == 1 else f"{size} numbers separated by commas"
        raise af.errors.InputError(f"a point needs {wanted}", got=repr(line.strip()))
    return numbers


KEYWORDS = (
    *("eps", "budget", "time_limit", "memory_limit", "norm", "dtype", "construction", "checkpoint", "relative"),
    *("outside", "engine", "panels", "output", "style", "seed", "to"),
)
"""Arguments of the library that are options here."""
NAMES = {"panels": "panel", "output": "component"}
"""Where the option has another name."""
KEYWORD = re.compile(rf"\b({'|'.join(KEYWORDS)})=(?:\"([^\"]*)\"|([-+\w.]*\w))?")
SUBJECT = re.compile(rf"^({'|'.join(KEYWORDS)}) (?=must )")
CALLS = {
    "net.to_onnx(path)": "-o f.onnx",
    'net.export(path, "torch")': "attnfun export f.safetensors --to torch",
    "torch.save(net.to_torch().state_dict(), path)": "attnfun export f.safetensors --to torch",
    "net.plot(path)": "--plot",
    "net.report(path)": "attnfun report f.safetensors",
    "json.dumps(net.certificate.as_dict())": "--json",
}
"""Commands and options that do what remedies say in Python."""
ALONE = re.compile(r"\b(without|or) eps\b")
OPTIONS = re.compile(r"options=\{\"(\w+)\": ([^}]*)\}")


def as_options(words: str) -> str:
    """A message of the library with the options of the command line in place of arguments.

    >>> as_options('Raise budget=, or pass eps=1e-3 and options={"tokens": 500}; outside="clip" helps, too.')
    'Raise --budget, or pass --eps 1e-3 and -O tokens=500; --outside clip helps, too.'
    """

    def option(found: re.Match[str]) -> str:
        name = NAMES.get(found[1], found[1]).replace("_", "-")
        return f"--{name} {found[2] or found[3] or ''}".rstrip()

    for call, command in CALLS.items():
        words = words.replace(call, command)
    words = ALONE.sub(r"\1 --eps", words)
    words = SUBJECT.sub(lambda found: f"--{NAMES.get(found[1], found[1]).replace('_', '-')} ", words)
    return KEYWORD.sub(option, OPTIONS.sub(r"-O \1=\2", words))


def _message(error: AttnfunError) -> str:
    """The error, with options in place of arguments; what a user wrote is quoted as it was."""
    got = None if error.got is None else str(error.got)
    got = as_options(got) if got is not None and KEYWORD.match(got) else got
    return str(AttnfunError(as_options(error.constraint), got=got, remedy=as_options(error.remedy)))


def main(arguments: list[str] | None = None, leave: Callable[[int], NoReturn] = sys.exit) -> None:
    """Run the command line; errors become one line on standard error and an exit code."""
    try:
        app(arguments, standalone_mode=True)
    except (af.errors.ToleranceNotMet, af.errors.ProofFailed, af.errors.SoundnessError) as error:
        notes.print(f"error: {_message(error)}", style="red", markup=False, highlight=False)
        leave(NOT_REACHED)
    except AttnfunError as error:
        notes.print(f"error: {_message(error)}", style="red", markup=False, highlight=False)
        leave(BAD_INPUT)
