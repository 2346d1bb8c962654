"""Random cases from the whole grammar, each as one line of Python that makes a compiled network, and what it means.

Every case is reduced to a formula that says what is true: functions, networks of rectifiers, truncated linear maps and
combinations too. `balls.py` evaluates it.
"""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass

import numpy as np

from attnfun.arithmetic.formats import FORMATS
from balls import Formula, numpy_text

SMOOTH = [
    "sin({})", "cos(3*{})", "tanh({})", "atan({})", "erf({})", "sinc({})", "sinc(8*{})", "exp({})", "expm1({})",
    "sinh({})", "cosh({})", "exp(-({})**2)", "log(1.5 + ({})**2)", "ln(3 + tanh({}))", "log1p(({})**2)",
    "sqrt(1 + ({})**2)", "asin(0.9*tanh({}))", "acos(0.5*sin({}))", "tan(sin({}))", "({})**2", "({})**3", "({})**0",
    "({})**1", "(2 + ({})**2)**-1", "2**({})", "(2 + sin({}))**0.3", "(1.5 + tanh({}))**-1.7", "pi*({})", "-({})",
    "e**-abs({})", "+({})", "3", "0.1*({})", "({})**4", "sigmoid(3*{})", "softplus({})", "log2(3 + tanh({}))",
    "log10(1.5 + ({})**2)", "sech({})", "asinh(2*{})", "cbrt(2 + tanh({}))",
]  # fmt: skip
SPECIAL = [
    "gamma(2.5 + tanh({}))", "gamma(-0.5 + 0.4*tanh({}))", "lgamma(3 + sin({}))", "digamma(1.5 + tanh({}))",
    "besselj(0, 4*{})", "besselj(2.5, 3 + sin({}))", "bessely(1, 2 + tanh({}))", "besseli(1, {})",
    "besselk(0, 2 + sin({}))",
    "airyai(3*{})", "airybi({})", "si(9*{})", "ci(2 + tanh({}))", "ei(1.5 + tanh({}))", "erfc({})",
    "erfinv(0.9*tanh({}))", "zeta(2.5 + tanh({}))", "ellipk(0.8*sin({}))", "ellipe(0.8*tanh({}))",
]  # fmt: skip
KINKED = [
    "abs({})",
    "relu({})",
    "clip({}, -0.5, 0.25)",
    "cbrt({})",
    "({0})*sign({0})",
    "sqrt(abs({}))",
    "abs({})**1.5",
    "abs({})**0.3",
]
ROUGH = [
    *KINKED, "sign({})", "1/({})", "({})**-2", "log({})", "sqrt({})", "asin({})", "sin({0})/({0})",
    "where({0} <= 0 and {0} >= 0, 1, sin({0})/({0}))",
]  # fmt: skip
BINARY = ["({} + {})", "({} - {})", "({} * {})", "({} / (2 + ({})**2))", "min({}, {})", "max({}, {})",
          "max({}, 0.25, {})", "min({}, {}, 1)", "hypot({}, {})", "hypot({}, 2 + {})", "atan2({}, 2 + ({})**2)",
          "atan2(1.5 + sin({}), {})"]  # fmt: skip
PARTIAL = ["({})/({})", "atan2({}, {})", "(1.2 + ({})**2)**({})"]
ORDERS = ["<", "<=", ">", ">="]
NORMS = ["inf", 1, 2, 10]
DTYPES = list(FORMATS)
GENERAL = ["auto", "grid", "cross", "spectral", "circuit", "subspace", "max-affine", "two-layer", "softmax-readout"]
GENERAL += ["two-layer-lookup"]
"""Constructions for formulas."""


@dataclass(frozen=True)
class Case:
    """A line of Python that compiles something, and the formula that says what it should be."""

    family: str
    code: str
    """Uses af, np, torch."""
    truth: Formula
    norm: str | float
    dtype: str
    construction: str
    ends: tuple[float, float] | None = None
    """Between which the bound beyond the domain is to hold, too (`Compiled.beyond`)."""

    def __str__(self) -> str:
        return self.code


class Draw:
    """Random pieces of formulas in variables with ranges of their own."""

    def __init__(self, rng: np.random.Generator, size: int) -> None:
        self.rng, self.names = rng, ["x", "y", "z"][:size]
        self.scales = [self.scale() for _ in self.names]
        self.domain = {name: (lo, hi) for name, (lo, hi, _, _) in zip(self.names, self.scales, strict=True)}

    # ------------------------------------------------------------ numbers

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def pick(self, choices: list) -> str:
        return choices[int(self.rng.integers(len(choices)))]

    def scale(self) -> tuple[float, float, str, str]:
        """Lower end, upper end, and the middle and half-width as written, for leaves about 1 in size."""
        kind = self.rng.random()
        if kind < 0.6:
            half, offset = float(f"{10.0 ** self.rng.uniform(-0.7, 0.7):.2g}"), 0.0
        elif kind < 0.75:
            half = float(f"{10.0 ** self.rng.uniform(-1, 1):.2g}")
            offset = float(f"{half * 10.0 ** self.rng.uniform(0.5, 6) * self.rng.choice([-1, 1]):.3g}")
        elif kind < 0.88:
            half = float(f"{10.0 ** self.rng.uniform(-12, -2):.2g}")
            offset = 0.0 if self.chance(0.5) else float(f"{half * 10.0 ** self.rng.uniform(0, 5):.3g}")
        else:
            half, offset = float(f"{10.0 ** self.rng.uniform(2, 60):.2g}"), 0.0
        lo = offset - half * float(self.rng.choice([0.0, 0.5, 1.0]))
        return lo, offset + half, repr(offset), repr(half)

    def number(self) -> str:
        if self.chance(0.5):
            return self.pick(["0", "1", "2", "0.5", "-1", "0.1", "3", "1e-5", "30", "1_0.5", "7e-3"])
        return f"{self.rng.normal() * 10.0 ** self.rng.integers(-1, 2):.4g}"

    def within(self, k: int) -> float:
        """A place in the range of a variable, written with few or all digits; sometimes one of its ends."""
        lo, hi = self.domain[self.names[k]]
        spot = float(self.rng.uniform(lo, hi))
        if self.chance(0.1):
            return float(self.rng.choice([lo, hi]))
        short = float(f"{spot:.5g}")
        return short if self.chance(0.6) and lo <= short <= hi else spot

    # ------------------------------------------------------------ formulas

    def leaf(self, plain: bool = False) -> str:
        k = int(self.rng.integers(len(self.names)))
        _, _, middle, half = self.scales[k]
        name = self.names[k]
        if middle == "0.0" and 0.1 <= float(half) <= 10 and (plain or self.chance(0.8)):
            return name
        if not plain and self.chance(0.12):
            return self.number()
        return f"(({name} - {middle})/{half})" if middle != "0.0" else f"({name}/{half})"

    def formula(self, depth: int) -> str:
        if depth <= 0 or self.chance(0.12):
            return self.leaf()
        kind = self.rng.random()
        if kind < 0.38:
            return self.pick(SMOOTH).format(self.formula(depth - 1))
        if kind < 0.5:
            return self.pick(ROUGH).format(self.formula(depth - 1))
        if kind < 0.84:
            return self.pick(BINARY).format(self.formula(depth - 1), self.formula(depth - 1))
        if kind < 0.88:
            return self.pick(PARTIAL).format(self.formula(depth - 1), self.formula(depth - 1))
        return self.where(depth - 1)

    def where(self, depth: int) -> str:
        kind = self.rng.random()
        if kind < 0.25:
            return f"where({self.condition(depth)}, {self.number()}, {self.number()})"
        if kind < 0.4:
            same = self.formula(depth - 1)
            return f"where({self.condition(depth)}, {same}, {same})"
        return f"where({self.condition(depth)}, {self.formula(depth - 1)}, {self.formula(depth - 1)})"

    def window(self, k: int | None = None) -> tuple[str, str, str]:
        """(condition, centre, half-width) of a window, often narrower than any box of a proof."""
        k = int(self.rng.integers(len(self.names))) if k is None else k
        (lo, hi), name = self.domain[self.names[k]], self.names[k]
        centre = self.within(k)
        half = float(f"{max((hi - lo) * 10.0 ** self.rng.uniform(-11, -0.7), abs(centre) * 1e-14):.2g}")
        left, right = self.pick(["<", "<="]), self.pick(["<", "<="])
        return f"{centre!r} - {half!r} {left} {name} {right} {centre!r} + {half!r}", repr(centre), repr(half)

    def condition(self, depth: int = 1) -> str:
        k = int(self.rng.integers(len(self.names)))
        name, kind = self.names[k], self.rng.random()
        if kind < 0.28:
            return f"{name} {self.pick(ORDERS)} {self.within(k)!r}"
        if kind < 0.45:
            return self.window(k)[0]
        if kind < 0.55:
            return f"{self.formula(1)} {self.pick(ORDERS)} {self.formula(1)}"
        if kind < 0.62:
            wave = f"sin({self.pick(['3', '30', '300'])}*{self.leaf(True)})"
            return f"{wave} {self.pick(ORDERS)} {self.pick(['0.9', '0', '-0.99', '1'])}"
        if kind < 0.7:  # a point, or a set without inner points
            spot = repr(self.within(k))
            return self.pick([f"{spot} <= {name} <= {spot}", f"{name} <= {spot} and {name} >= {spot}"])
        if kind < 0.77:  # nowhere, everywhere
            everywhere = ["0 <= 0", f"{name}**2 >= 0", f"{name} <= 1e99", "0.1 + 0.2 <= 0.3"]
            return self.pick([*everywhere, "1 < 0", f"{name} < {name}", f"{name} < -1e99", f"abs({name}) < 0"])
        if kind < 0.82:
            return f"{self.where(0)} {self.pick(ORDERS)} 0.5"
        if depth <= 0:
            return f"{name} < {self.within(k)!r}"
        if kind < 0.88:
            return f"not ({self.condition(depth - 1)})"
        join = self.pick(["and", "or"])
        return f"(({self.condition(depth - 1)}) {join} ({self.condition(depth - 1)}))"

    # ------------------------------------------------------------ families

    def bump(self) -> str:
        """Continuous: a window times what vanishes at its ends."""
        window, centre, half = self.window()
        name = next(name for name in self.names if f" {name} " in f" {window} ")
        inside = f"(({name} - {centre})/{half})"
        shape = self.pick(
            [f"(1 - {inside}**2)", f"(1 - abs({inside}))", f"(1 - {inside}**2)**2", f"cos(pi/2*{inside})"]
        )
        indicator = self.pick([f"where({window}, 1, 0)", f"where(not ({window}), 0, 1)"])
        if self.chance(0.3):
            return f"where({window}, {shape}, 0)"
        return f"{shape}*{indicator}" if self.chance(0.5) else f"{indicator}*{shape}"

    def seam(self) -> str:
        """Continuous: two branches that meet where the condition changes."""
        k = int(self.rng.integers(len(self.names)))
        name, spot = self.names[k], repr(self.within(k))
        _, _, _, half = self.scales[k]
        inside = f"(({name} - {spot})/{half})"
        sides = [inside, f"{inside}**2", f"sin(3*{inside})", f"expm1({inside})", "0", f"-2*{inside}"]
        return f"where({name} {self.pick(ORDERS)} {spot}, {self.pick(sides)}, {self.pick(sides)})"

    def continuous(self, depth: int) -> str:
        """Mostly tame: smooth operations, kinks, seams and bumps."""
        if depth <= 0 or self.chance(0.15):
            return self.leaf()
        kind = self.rng.random()
        if kind < 0.45:
            return self.pick(SMOOTH).format(self.continuous(depth - 1))
        if kind < 0.55:
            return self.pick(KINKED).format(self.continuous(depth - 1))
        if kind < 0.65:
            return self.pick([self.bump, self.seam])()  # type: ignore[operator]
        return self.pick(BINARY).format(self.continuous(depth - 1), self.continuous(depth - 1))

    def target(self) -> tuple[str, str]:
        """(family, formula)."""
        kind = self.rng.random()
        if kind < 0.2:
            family, text = "smooth and kinked", self.continuous(3)
        elif kind < 0.45:
            family, text = "narrow bump", f"{self.continuous(1)} + {self.bump()}"
            text = text if self.chance(0.7) else f"({self.continuous(1)})*{self.bump()}"
        elif kind < 0.58:
            family, text = "seam", f"{self.continuous(1)} + {self.seam()}"
        elif kind < 0.7:
            family, text = "window", f"{self.formula(1)} + {self.number()}*where({self.condition(2)}, 1, 0)"
            text = text if self.chance(0.6) else f"{self.leaf()}*where({self.condition(2)}, {self.number()}, 0)"
            text = text if self.chance(0.8) else f"{text} - sign({self.formula(1)})"
        else:
            family, text = "anything", self.formula(3)
        if self.chance(0.25):
            family, text = f"{family}, scaled", f"1e{int(self.rng.integers(-300, 301))}*({text})"
        if self.chance(0.06):
            text = f"[{text}, {self.continuous(1)}]"
        return family, text


def random_case(seed: int, number: int) -> Case:
    """The case of this number; equal arguments give equal cases."""
    rng = np.random.default_rng([seed, number])
    kind = rng.random()
    if kind < 0.5:
        return formula_case(rng)
    for share, family in FAMILIES:
        if kind < share:
            return family(rng)
    if kind < 0.84:
        return traced_case(rng)
    if kind < 0.9:
        return combined_case(rng)
    if kind < 0.95:
        return declared_case(rng)
    return piecewise_case(rng)


def _request(
    rng: np.random.Generator, norms: tuple[float, ...] = (0.6, 0.16, 0.14, 0.1), *, sizes: bool = True
) -> tuple[str, str | float, str]:
    """(keywords, norm, dtype), norms with these probabilities; a tolerance, or a size in its place if that may be."""
    norm = NORMS[int(rng.choice(4, p=norms))]
    dtype = DTYPES[int(rng.choice(len(DTYPES), p=[0.55, 0.3, 0.07, 0.08]))]
    words = ["time_limit=LIMIT", "budget=3000"]
    if rng.random() < 0.7 or not sizes:
        words = [f"{10.0 ** rng.uniform(-6 if dtype == 'float64' else -2, -0.5):.2g}", "relative=True", *words]
    else:
        words.append(f"options={{'tokens': {int(rng.choice([2, 4, 5, 8, 12, 30, 40]))}}}")
    words += [] if norm == "inf" else [f"norm={norm}"]
    words += [] if dtype == "float64" else [f"dtype={dtype!r}"]
    return ", ".join(words), norm, dtype


def formula_case(rng: np.random.Generator) -> Case:
    """A formula as text."""
    draw = Draw(rng, int(rng.choice([1, 2, 3], p=[0.66, 0.24, 0.1])))
    family, text = draw.target()
    words, norm, dtype = _request(rng)
    construction = GENERAL[int(rng.choice(len(GENERAL), p=[0.26, 0.15, 0.08, 0.2, 0.09, 0.06, 0.06, 0.03, 0.05, 0.02]))]
    if construction in ("circuit", "max-affine", "subspace"):
        words = (
            words.split(", options=")[0]
            if "relative" in words
            else f"0.01, relative=True, {words.split(', options=')[0]}"
        )
    code = f"af.compile({text!r}, {draw.domain!r}, {words}, construction={construction!r})"
    return Case(family, code, Formula(text, draw.names), norm, dtype, construction)


def special_case(rng: np.random.Generator) -> Case:
    """A special function of one variable, alone or inside a formula."""
    draw = Draw(rng, 1)
    text = draw.pick(SPECIAL).format(draw.leaf(plain=True))
    text = text if draw.chance(0.5) else draw.pick(BINARY).format(text, draw.continuous(1))
    words, norm, dtype = _request(rng)
    construction = draw.pick(["auto", "auto", "grid", "spectral"])
    code = f"af.compile({text!r}, {draw.domain!r}, {words}, construction={construction!r})"
    return Case("special function", code, Formula(text, draw.names), norm, dtype, construction)


POLES = [
    "abs({0})**-{1}", "({0})**-1", "1/sqrt(abs({0}))", "cbrt({0})**-2", "log(abs({0}))", "log2(abs({0}))**2",
    "(({0})**2 + abs({0}))**-{1}", "({0})*abs({0})**-1.{1}", "max(abs({0})**-{1}, 3)", "min(1/({0})**2, 5)",
    "where({0} < 0, 2, abs({0})**-{1})", "sqrt(-log(abs({0})/(9 + abs({0}))))", "(({0})**2 + abs({2}))**-{1}",
    "({0} - {2})**-2", "abs({0}*{2})**-{1}",
]  # fmt: skip
"""Poles at two places, with the digits of an exponent below one, and relatives that have none or are not integrable."""


def pole_case(rng: np.random.Generator) -> Case:
    """A pole in L_p, at an end or inside, of one factor or of several; sometimes with a declared tail that holds."""
    draw = Draw(rng, int(rng.choice([1, 2], p=[0.7, 0.3])))
    one, other = (f"({draw.leaf(plain=True)} - {draw.pick(['0', '0', '0.3', '-1', '1', '0.5'])})" for _ in range(2))
    power = draw.pick(["0.05", "0.2", "0.3", "0.45"])
    text, declared = draw.pick(POLES).format(one, power, other).replace("1.0.", "1."), ""
    if draw.chance(0.25):
        text, declared = f"(({one})**2 + sin({one})**4)**(-{power}/2)", f", tail='1.5*abs({one})**-{power}'"
    elif draw.chance(0.5):
        text = draw.pick(["{} + {}", "({})*({})", "{} - {}"]).format(text, draw.continuous(1))
    words, norm, dtype = _request(rng, norms=(0.0, 0.6, 0.3, 0.1))
    code = f"af.compile({text!r}, {draw.domain!r}, {words}{declared})"
    return Case("pole" + ", declared tail" * bool(declared), code, Formula(text, draw.names), norm, dtype, "auto")


SETTLING = [
    "exp(-({})**2)", "atan({})", "tanh(2*{})", "1/(1 + ({})**2)", "sech({})", "sigmoid(3*{})", "erf({})", "erfc({})",
    "exp(-abs({}))", "1/(2 + abs({}))", "clip({}, -0.5, 0.25)", "max(1 - abs({}), 0)", "sin(9*{0})/(1 + ({0})**2)",
    "where({0} < 0.3, exp(-({0})**2), exp(-0.09))", "cbrt(1/(1 + abs({})))", "log1p(exp(-abs({})))",
    "(2 + 1/(1 + ({})**2))**-1.7", "airyai(1 + abs({}))", "min(abs({}), 1)",
]  # fmt: skip


def open_case(rng: np.random.Generator) -> Case:
    """A formula that settles, on a domain with an infinite end."""
    draw = Draw(rng, 1)
    settling = (draw.pick(SETTLING).format(draw.leaf(plain=True)) for _ in range(2))
    text = draw.pick(["{0}", "{0}", "{0} - {1}", "({0})*({1})", "sin(3*{0})", "exp({0})", "1e200*({0})"])
    text, (low, high) = text.format(*settling), draw.domain["x"]
    ends = [(-np.inf, np.inf), (low, np.inf), (-np.inf, high)][int(rng.integers(3))]
    eps, (_, _, dtype) = 10.0 ** rng.uniform(-3, -0.5), _request(rng)
    words = f"{eps:.2g}, relative=True, time_limit=LIMIT, budget=3000, dtype={dtype!r}"
    domain = f"{{'x': {tuple(map(float, ends))!r}}}".replace("inf", "np.inf")
    return Case(
        "open domain", f"af.compile({text!r}, {domain}, {words})", Formula(text, ["x"]), "inf", dtype, "auto", ends
    )


POSITIVE = [
    "exp(2*{})", "(1.5 + tanh({}))", "(0.01 + ({})**2)", "(1e-4 + exp(-3*{}))", "1e5*(1.5 + sin({}))", "cosh({})",
    "1e-150*(1 + ({})**2)",
]  # fmt: skip
SIGNED = ["{}", "sin(3*{})", "(0.3 - {})", "sinh({})", "1e6*{}", "abs({})", "(({})**2 - 0.2)"]
PRODUCTS = [
    "P*P/(P*N)", "sqrt(P*P)*S", "log(P*P/P)*S", "(P*P)**-1.5*S", "(P/P)**0.3", "S*S*S", "(S)**2*(S)**3*P", "S/(N*P)",
    "P**(0.5*tanh(S))", "N*N*P", "1/(P*P*P)", "sqrt(P/(P*P))", "N**3/P**2", "exp(S)*exp(S)/P", "P*S - S*N",
]  # fmt: skip
"""P stands for a factor that is positive, N for one that is negative, S for any."""


def product_case(rng: np.random.Generator) -> Case:
    """Products, quotients, powers and roots of factors of both signs and many sizes, mostly as circuits."""
    draw = Draw(rng, int(rng.choice([2, 3])))
    text = ""
    for letter in draw.pick(PRODUCTS):
        if letter in "PNS":
            factor = draw.pick(SIGNED if letter == "S" else POSITIVE).format(draw.leaf(plain=True))
            letter = f"(-{factor})" if letter == "N" else factor
        text += letter
    words, norm, dtype = _request(rng, (0.8, 0.1, 0.1, 0.0), sizes=False)
    construction = draw.pick(["circuit", "circuit", "auto"])
    code = f"af.compile({text!r}, {draw.domain!r}, {words}, construction={construction!r})"
    return Case("product", code, Formula(text, draw.names), norm, dtype, construction)


def two_inputs_case(rng: np.random.Generator) -> Case:
    """A formula of two inputs: the first has the coordinates x and, sometimes, y, the second the last one."""
    draw = Draw(rng, int(rng.choice([2, 3], p=[0.8, 0.2])))
    one, other = draw.continuous(1), draw.continuous(2)
    text = draw.pick(["{0} + {1}", "({0})*({1})", "tanh({0} - {1})", "min({0}, {1})", "{1}"]).format(one, other)
    text = text if draw.chance(0.8) else f"[{text}, {one}]"
    boxes = [
        f"af.Box({[draw.domain[name][0] for name in names]}, {[draw.domain[name][1] for name in names]}, {names})"
        for names in (draw.names[:-1], draw.names[-1:])
    ]
    words, norm, dtype = _request(rng)
    code = f"af.compile({text!r}, {{'Q': {boxes[0]}, 'K': {boxes[1]}}}, {words})"
    return Case("two inputs", code, Formula(text, draw.names), norm, dtype, "cross")


def partition_case(rng: np.random.Generator) -> Case:
    """A head that has given values on the cells of a partition, in their interiors or in L_p."""
    draw, count = Draw(rng, int(rng.integers(1, 3))), int(rng.integers(2, 6))
    low, high = np.array(list(draw.domain.values())).T
    slopes = _few_digits(rng.normal(size=(count, len(low))) / (high - low))
    offsets = _few_digits(rng.normal(size=count) - slopes @ (low + high) / 2)
    levels = _few_digits(rng.normal(size=count) * 10.0 ** int(rng.choice([0, 0, -50, 90])))
    scores = [_sum(row, draw.names, shift) for row, shift in zip(slopes, offsets, strict=True)]
    text = repr(float(levels[-1]))
    for k in reversed(range(count - 1)):
        leads = " and ".join(f"{scores[k]} >= {each}" for each in scores[k + 1 :])
        text = f"where({leads}, {float(levels[k])!r}, {text})"
    _, norm, dtype = _request(rng)
    words = f"{10.0 ** rng.uniform(-6, -0.3) * np.ptp(levels):.2g}, dtype={dtype!r}, time_limit=LIMIT"
    words += f", gap={10.0 ** rng.uniform(-3, -0.5):.2g}" if norm == "inf" else f", norm={norm}"
    cells = f"af.partition(slopes={slopes.tolist()}, offsets={offsets.tolist()}, domain={draw.domain!r})"
    code = f"{cells}.head({levels.tolist()}, {words})"
    return Case("cells", code, Formula(text, draw.names, floats=True), norm, dtype, "partition")


FAMILIES = [
    (0.54, two_inputs_case), (0.58, open_case), (0.63, pole_case), (0.67, product_case), (0.69, partition_case),
    (0.72, special_case),
]  # fmt: skip
"""Families of cases, and up to which share each is drawn."""


MATH = {
    name: f"math.{name}"
    for name in ["exp", "expm1", "log", "log1p", "log2", "log10", "sqrt", "cbrt", "sin", "cos", "tan"]
}
MATH |= {
    name: f"math.{name}" for name in ["asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "erf", "atan2", "hypot"]
}
MATH |= {"ln": "math.log", "abs": "abs", "min": "min", "max": "max"}
"""Functions of formulas in Python and its math module."""


def python_text(node: ast.expr) -> str | None:
    """The same expression for single numbers, with branches in place of `where`; None where Python lacks a function.

    >>> python_text(ast.parse("where(x < 1, sin(x), max(x, 2))", mode="eval").body)
    '(math.sin(x) if x < 1.0 else max(x, 2.0))'
    """
    parts = [part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)]
    match node:
        case ast.Constant(value=int() | float() as value):
            return repr(float(value))
        case ast.Name(id=name):
            return name if name == "x" else f"math.{name}"
        case ast.Call(func=ast.Name(id=name), args=args):
            texts = [python_text(part) for part in args]
            if None in texts or (name != "where" and name not in MATH):
                return None
            if name == "where":
                return f"({texts[1]} if {texts[0]} else {texts[2]})"
            return f"{MATH[name]}({', '.join(filter(None, texts))})"
    texts = [python_text(part) for part in parts]
    if None in texts:
        return None
    match node:
        case ast.UnaryOp(op=op):
            return f"({'not ' if isinstance(op, ast.Not) else '-' if isinstance(op, ast.USub) else '+'}{texts[0]})"
        case ast.BinOp(op=op):
            sign = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**"}[type(op)]
            return f"({texts[0]} {sign} {texts[1]})"
        case ast.BoolOp(op=op):
            return f"({(' and ' if isinstance(op, ast.And) else ' or ').join(filter(None, texts))})"
        case ast.Compare(ops=ops):
            signs = [{ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}[type(op)] for op in ops]
            return "".join(f"{text} {sign} " for text, sign in zip(texts, signs, strict=False)) + str(texts[-1])
    raise ValueError(ast.unparse(node))


def traced_case(rng: np.random.Generator) -> Case:
    """The same grammar as a Python function of NumPy operations."""
    draw = Draw(rng, int(rng.choice([1, 2])))
    _, text = draw.target()
    while "sinc" in text or text.startswith("["):
        _, text = draw.target()
    words, norm, dtype = _request(rng)
    places = {"x": "p"} if len(draw.names) == 1 else {name: f"p[..., {k}]" for k, name in enumerate(draw.names)}
    code = numpy_text(ast.parse(text, mode="eval").body, places, lambda: bool(rng.random() < 0.5))
    ranges = list(draw.domain.values())
    domain = ranges[0] if len(ranges) == 1 else ranges
    construction = str(rng.choice(["auto", "grid", "spectral"]))
    single = python_text(ast.parse(text, mode="eval").body) if len(ranges) == 1 and rng.random() < 0.4 else None
    function = f"lambda p: {code}" if single is None else f"np.vectorize(lambda x: {single})"
    source = f"af.compile({function}, {domain!r}, {words}, construction={construction!r})"
    return Case("traced function", source, Formula(text, draw.names, floats=True), norm, dtype, construction)


def combined_case(rng: np.random.Generator) -> Case:
    """Sums, products and compositions of networks."""
    draw = Draw(rng, 1)
    dtype = DTYPES[int(rng.choice(len(DTYPES), p=[0.6, 0.3, 0.04, 0.06]))]
    eps = float(f"{10.0 ** rng.uniform(-4 if dtype == 'float64' else -2, -1):.2g}")
    inner, other = (f"sin({draw.continuous(2)})" for _ in range(2))
    unit = Draw(rng, 1)
    unit.domain, unit.scales = {"x": (-1.5, 1.5)}, [(-1.5, 1.5, "0.0", "1.0")]
    outer = f"tanh({unit.continuous(2)})"
    make = "af.compile({!r}, {!r}, {}, dtype={!r}, time_limit=LIMIT, budget=3000)"
    f, g = (make.format(text, draw.domain, eps, dtype) for text in (inner, other))
    h = make.format(outer, unit.domain, eps, dtype)
    composed = substituted(outer, "x", inner)
    code, text = [
        (f"{f} + {g}", f"({inner}) + ({other})"),
        (f"{f}*{g}", f"({inner})*({other})"),
        (f"{h}({f})", composed),
        (f"{h}({f})*{g} - 0.5*{f}", f"({composed})*({other}) - 0.5*({inner})"),
    ][int(rng.integers(4))]
    return Case("combination", code, Formula(text, draw.names), "inf", dtype, "combined")


def substituted(outer: str, name: str, inner: str) -> str:
    """The formula `outer` with `inner` in place of a variable; numbers stay as written."""
    places = [
        node for node in ast.walk(ast.parse(outer, mode="eval")) if isinstance(node, ast.Name) and node.id == name
    ]
    for node in sorted(places, key=lambda node: -node.col_offset):
        outer = f"{outer[: node.col_offset]}({inner}){outer[node.end_col_offset :]}"
    return outer


def declared_case(rng: np.random.Generator) -> Case:
    """A black box with a Lipschitz constant that it has: the sum of |a| k over its waves and tents."""
    lo, hi = float(f"{rng.uniform(-3, 0):.3g}"), float(f"{rng.uniform(0.5, 3):.3g}")
    waves = [(float(f"{rng.normal():.3g}"), float(f"{10.0 ** rng.uniform(-0.5, 1):.3g}")) for _ in range(2)]
    spot = float(f"{rng.uniform(lo, hi):.6g}")
    tent = float(f"{10.0 ** rng.uniform(-3, 0):.2g}")
    (a, k), (b, m) = waves
    text = f"{a!r}*sin({k!r}*x) + {b!r}*abs({m!r}*x - 0.3) + max({tent!r} - abs(x - {spot!r}), 0.0)"
    constant = 1.001 * (sum(abs(a) * k for a, k in waves) + 1)
    dtype = DTYPES[int(rng.choice(len(DTYPES), p=[0.6, 0.3, 0.04, 0.06]))]
    body = numpy_text(ast.parse(text, mode="eval").body, {"x": "p"})
    construction = str(rng.choice(["auto", "grid", "cross"]))
    code = (
        f"af.compile(lambda p: {body}, ({lo!r}, {hi!r}), {10.0 ** rng.uniform(-1.5, -0.3):.2g}, "
        f"lipschitz={constant:.6g}, dtype={dtype!r}, time_limit=LIMIT, budget=3000, construction={construction!r})"
    )
    return Case("declared constant", code, Formula(text, ["x"], floats=True), "inf", dtype, construction)


def piecewise_case(rng: np.random.Generator) -> Case:
    """Truncated linear maps, maxima of affine functions and rectifier networks, at many scales."""
    dtype = DTYPES[int(rng.choice(len(DTYPES), p=[0.5, 0.4, 0.04, 0.06]))]
    size = 10.0 ** int(rng.choice([0, 0, 0, -6, 5]))
    eps, kind = (
        float(f"{size * 10.0 ** rng.uniform(-4 if dtype == 'float64' else -1.5, -0.5):.2g}"),
        int(rng.integers(3)),
    )
    tail = f"dtype={dtype!r}, time_limit=LIMIT, budget=3000"
    if kind == 0:
        tokens, width = int(rng.integers(1, 4)), int(rng.integers(1, 3))
        weight = _few_digits(rng.normal(size=(tokens, width)) * size)
        shift = _few_digits(rng.normal(size=tokens) * size)
        low, high = _few_digits(np.sort(rng.normal(size=2)) * size) + np.array([0.0, size])
        rows = [_sum(weight[i], [f"x{i * width + k}" for k in range(width)], shift[i]) for i in range(tokens)]
        text = f"[{', '.join(f'min(max({row}, {float(low)!r}), {float(high)!r})' for row in rows)}]"
        names = [f"x{k}" for k in range(tokens * width)]
        construction = str(rng.choice(["knots", "relu", "truncated-linear", "multihead", "two-layer"]))
        domain = f"af.Box(np.full(({tokens}, {width}), -1.0), np.full(({tokens}, {width}), 2.0))"
        target = f"af.TruncatedLinear({weight.tolist()!r}, {shift.tolist()!r}, {float(low)!r}, {float(high)!r})"
    elif kind == 1:
        width, planes = int(rng.integers(1, 4)), int(rng.integers(1, 7))
        weight = _few_digits(rng.normal(size=(planes, width)) * size)
        shift = _few_digits(rng.normal(size=planes) * size)
        names = [f"x{k}" for k in range(width)]
        rows = [_sum(weight[i], names, shift[i]) for i in range(planes)]
        text = f"max({', '.join(rows)})" if planes > 1 else rows[0]
        construction, domain = str(rng.choice(["max-affine", "auto"])), f"[(-1, 1)]*{width}"
        target = f"af.MaxAffine({weight.tolist()!r}, {shift.tolist()!r})"
    else:
        seed, hidden = int(rng.integers(10**6)), int(rng.integers(1, 5))
        first, second = _layers(seed, hidden)
        names = ["x0", "x1"]
        units = [f"max({_sum(first[0][i], names, first[1][i])}, 0)" for i in range(hidden)]
        text = f"[{', '.join(_sum(second[0][j], units, second[1][j]) for j in range(2))}]"
        construction, domain = str(rng.choice(["relu", "auto"])), "[(-1, 1)]*2"
        target = f"rectifiers({seed}, {hidden})"
        eps = float(f"{eps / size:.2g}")
    code = f"af.compile({target}, {domain}, {eps!r}, {tail}, construction={construction!r})"
    return Case("piecewise linear", code, Formula(text, names, floats=True), "inf", dtype, construction)


def _few_digits(numbers: np.ndarray) -> np.ndarray:
    return np.array([float(f"{x:.3g}") for x in numbers.ravel()]).reshape(numbers.shape)


def _sum(weights: np.ndarray, names: list[str], shift: float) -> str:
    return " + ".join([*(f"{float(w)!r}*{name}" for w, name in zip(weights, names, strict=True)), repr(float(shift))])


def rectifiers(seed: int, hidden: int):
    """A small PyTorch network."""
    import torch

    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(2, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 2))


def _layers(seed: int, hidden: int) -> list[tuple[np.ndarray, np.ndarray]]:
    module = rectifiers(seed, hidden)
    pairs = [(module[k].weight, module[k].bias) for k in (0, 2)]
    return [tuple(part.detach().numpy().astype(np.float64) for part in pair) for pair in pairs]  # type: ignore[misc]


OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**", ast.USub: "neg", ast.Lt: "<",
             ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.And: "and", ast.Or: "or", ast.Not: "not"}  # fmt: skip


def operations(formula: Formula) -> Counter[str]:
    """How often each operation of the grammar occurs."""
    found: Counter[str] = Counter()
    for node in ast.walk(formula.root):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found[node.func.id] += 1
        elif type(node) in OPERATORS:
            found[OPERATORS[type(node)]] += 1
        if isinstance(node, ast.Compare) and len(node.ops) > 1:
            found["chained comparison"] += 1
    return found
