"""PROOF: what a certificate says."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf, isinf, nextafter
from typing import TYPE_CHECKING, Any

from ..arguments import one_of
from ..arithmetic.directed import about_at_most, restated, sum_error
from ..errors import InputError, ProofFailed, TimeLimitReached
from ..judge import Limits, NotCovered, Unreadable, Verdict, claim_of, judge
from ..resources.deadline import TIME_LIMIT, Deadline
from ..resources.notebook import html_table
from ..targets import Status
from .claim import Claim
from .proof import ALIKE, PARTS, Proof

if TYPE_CHECKING:
    from .certify import Effort

ENGINES = ("interval", "arb")
"""Who checks a bound again: the reader that certificates are made with, or the judge as well, in ball arithmetic."""


@dataclass(frozen=True, eq=False)
class Certificate:
    """`|target(x) - network(x)| <= bound` for every real x of the domain, every output, in the arithmetic `dtype`.

    In L_p, the norm of that error over the domain is at most the bound.

    `status` says whether that is proved, conditional on the `assumptions`, or only estimated. `parts` holds bounds on
    the error of the `construction` (in real arithmetic), of the `rounding` in the network's own operations, and of the
    `input` (x rounded to the dtype), each over the whole domain, and `windows`, what fast evaluation may leave out; the
    bound is at most their sum.
    """

    bound: float
    status: Status
    norm: float
    """inf for the largest error, p for the L_p norm (not divided by the volume)."""
    parts: dict[str, float]
    assumptions: tuple[str, ...]
    found: float
    """The largest error met on the way. In the sup norm no bound can be below it."""
    effort: dict[str, int]
    """Boxes bounded, points sampled."""
    seed: int
    claim: Claim = field(repr=False)
    stopped: str = ""
    """The limit of time or memory that ended the search for a smaller bound, in words; not in files."""
    proof: Proof | None = field(default=None, repr=False)
    """Why the bound holds, as data that a rule can check; None for an estimate, or where it was not kept."""
    judged: bool = False
    """Has the judge agreed with it here? Files say so too, and are not believed."""
    not_judged: str = ""
    """Why the judge has not agreed, in words; nothing if it was not called. Not in files."""

    @property
    def dtype(self) -> str:
        """The arithmetic that the bound is about: the network's."""
        return self.claim.network.dtype

    @property
    def proved(self) -> bool:
        """Does the bound hold without any declaration by the user, the target being defined on the whole domain?"""
        return self.status is Status.PROVED

    @property
    def headline(self) -> str:
        """The bound with its status, in a few words."""
        return self._stated + (", and judged independently" if self.judged else "")

    @property
    def _stated(self) -> str:
        """What files say of it."""
        relation = "about" if self.status is Status.ESTIMATED else "<="
        return f"{self._error} {relation} {self.bound:.6g} {self.status.value}"

    @property
    def _error(self) -> str:
        """What the bound is about."""
        return "error" if isinf(self.norm) else f"L_{self.norm:g} error"

    @property
    def meaning(self) -> str:
        """What the bound is worth, in a sentence."""
        return self.claim.description.get("meaning", self.status.meaning(self.norm))

    def contradiction(self) -> str:
        """What in this certificate contradicts itself, in words; nothing if all is well.

        The parts are bounds on shares of the error, so none exceeds the bound, and the bound is at most their sum; both
        up to the rounding of sums and norms. An estimate is the error found, and what is set aside for fast evaluation.
        """
        estimated = self.status is Status.ESTIMATED
        numbers = {"bound": self.bound, "largest error found": self.found, **self.parts}
        for name, number in numbers.items():
            if not number >= 0:
                return f"{name} {number!r}, where a number >= 0 must stand"
        if isinf(self.bound) and not estimated:
            return f"bound {self.bound!r}, which bounds nothing"
        if set(self.parts) - {"windows"} != set(PARTS[:1] if estimated else PARTS):
            return f"parts named {', '.join(self.parts)}"
        if not 1 <= self.norm <= inf:
            return f"norm {self.norm!r}, where inf or a number >= 1 must stand"
        total, share = sum(self.parts.values()), max(self.parts.values())
        if not (about_at_most(self.bound, total) and about_at_most(share, self.bound)):
            return f"bound {self.bound!r} with the parts {self.parts}"
        if estimated and not about_at_most(self.bound, self.found + self.allowance):
            return f"an estimate of {self.bound!r} where {self.found!r} was found"
        if (isinf(self.norm) or estimated) and self.found > self.bound:
            return f"bound {self.bound!r} where an error of {self.found!r} was found"
        return ""

    def for_all_tokens(self, claim: Claim) -> Certificate:
        """What is proved of one token, as a certificate for a map that treats every token of a sequence so."""
        return replace(self, claim=claim, proof=self.proof and Proof(ALIKE, {}, (self.proof,)))

    def states(self, bound: float) -> bool:
        """Is the stated bound at least this one, up to the order of summation?"""
        return bound <= restated(self.bound - self.allowance)

    @property
    def allowance(self) -> float:
        """How much of the bound is set aside for fast evaluation (`attnfun.runtime.kernels`)."""
        return self.parts.get("windows", 0.0)

    def allowing(self, allowance: float) -> Certificate:
        """The same with so much more set aside for fast evaluation."""
        if allowance == 0:
            return self
        bound = nextafter(self.bound + allowance, inf)
        return replace(self, bound=bound, parts={**self.parts, "windows": self.allowance + allowance})

    def recheck(
        self,
        target: object = None,
        engine: str = "interval",
        *,
        time_limit: float | Deadline = TIME_LIMIT,
        effort: Effort | None = None,
    ) -> Certificate:
        """Prove the bound again from the network's weights, or estimate it again; ProofFailed if that does not succeed.

        A function whose code is not in the file must be given as `target`. `time_limit` is in seconds; `effort` has a
        deadline of its own, workers and a checkpoint. The engine "interval" checks the stored proof, or searches for a
        new one if there is none. The engine "arb" does the same and then calls the judge (`attnfun.judge`), a second
        program in ball arithmetic that shares no code with the first; InputError says what it does not cover. Nothing
        but the stated bound and the proof is taken from this certificate.
        """
        one_of("engine", engine, ENGINES)
        from .certify import Effort

        claim, effort = self.claim.with_target(target), effort or Effort(Deadline.of(time_limit))
        try:
            if engine == "arb":
                return self._judged(claim, effort)
            again = self.again(claim, effort)
            return again if claim is self.claim else replace(again, judged=False, not_judged="")
        except TimeLimitReached as late:
            got = f"no more than this within the time: {late}"
            raise ProofFailed(self._lost, got=got, remedy=f"{late.reason}.") from late

    @property
    def _lost(self) -> str:
        return f"the bound {self.bound:.6g} ({self.status.value}) could not be proved again"

    def again(self, claim: Claim, effort: Effort) -> Certificate:
        """The stored proof checked, or the whole search once more; or ProofFailed, or TimeLimitReached."""
        from .certify import certify, checked

        if claim.target is None:
            raise InputError(
                f"rechecking this certificate needs the function {claim.description.get('name', '')!r} itself",
                remedy=f"Pass it: certificate.recheck(target={'[f, None]' if claim.parts else 'f'}).",
            )
        if self.proof is not None:
            again = checked(replace(self, claim=claim), effort)
        else:
            goal = self.bound - self.allowance + sum_error(self.bound, 8)
            proof = self.status is not Status.ESTIMATED
            again = certify(claim, goal, norm=self.norm, proof=proof, seed=self.seed, effort=effort)
            again = again.allowing(self.allowance)
        weaker = Status.weakest([again.status, self.status]) is not self.status
        more = set(again.assumptions) - set(self.assumptions) if self.status is not Status.ESTIMATED else set()
        if again.bound > restated(self.bound) or weaker or more:
            effort.deadline.check("the proof")
            changed = "The file may have been changed, or the target is another function."
            raise ProofFailed(
                self._lost,
                got=f"{again.bound:.6g} ({again.status.value})",
                remedy=f"{again.stopped}." if again.stopped else changed,
            )
        return again

    def verdict(self, limits: Limits | None = None) -> Verdict:
        """What the judge says of this certificate: it reads what would be saved, and shares nothing with the proof.

        It takes the boxes and the time that it needs unless there are limits.
        """
        from .storage import pack

        tensors, description = pack(self)
        try:
            return judge(claim_of(description, tensors), limits)
        except (NotCovered, Unreadable) as reason:
            return Verdict(False, self.bound, inf, self.norm, 0, str(reason), covered=False)

    def _judged(self, claim: Claim, effort: Effort) -> Certificate:
        """The whole proof once more, and then by the judge, which reads what would be saved."""
        again = self.again(claim, effort)
        limits = Limits(over=lambda: effort.deadline.over)
        verdict = replace(self, claim=claim, proof=self.proof or again.proof).verdict(limits)
        if not verdict.covered:
            effort.deadline.check("the judge")
            raise InputError(
                "the judge must cover the target and the network of the certificate",
                got=verdict.reason,
                remedy='Recheck with engine="interval".',
            )
        if not verdict.agreed:
            raise ProofFailed(
                f"{self._lost} by the judge",
                got=verdict.reason,
                remedy="The file may have been changed, or the target is another function. If not, please report this.",
            )
        return replace(again, judged=True, not_judged="")

    def as_dict(self) -> dict[str, Any]:
        """A self-describing JSON-ready form."""
        return {
            "statement": f"{self._stated} (of |target(x) - network(x)|, largest over outputs, for "
            f"{self.claim.where}, network evaluated in {self.dtype}): {self.meaning}",
            "bound": self.bound,
            "status": self.status.value,
            "norm": "inf" if isinf(self.norm) else self.norm,
            "dtype": self.dtype,
            "parts": dict(self.parts),
            "assumptions": list(self.assumptions),
            "largest_error_found": self.found,
            "effort": dict(self.effort),
            "seed": self.seed,
            "judged": self.judged,
        }

    def _repr_html_(self) -> str:
        """For notebooks."""
        rows: list[tuple[str, object]] = [("for", self.claim.where), ("arithmetic", self.dtype)]
        rows += [(self.status.value, self.meaning), *((f"part: {name}", part) for name, part in self.parts.items())]
        rows += [("largest error found", self.found), *(("assumes", line) for line in self.assumptions)]
        return html_table(self.headline, rows)

    def __str__(self) -> str:
        lines = [
            f"{self.headline}, for {self.claim.where}, in {self.dtype}",
            f"{self.status.value}: {self.meaning}",
            "parts: " + ", ".join(f"{name} {part:.3g}" for name, part in self.parts.items()),
            f"{'largest error found' if isinf(self.norm) else f'{self._error} sampled'}: {self.found:.6g}",
        ]
        word = "note" if self.status is Status.ESTIMATED else "assumes"
        lines += [f"{word}: {line}" for line in self.assumptions]
        lines += [f"note: {self.stopped}"] if self.stopped else []
        return "\n".join([*lines, f"not judged: {self.not_judged}"] if self.not_judged else lines)
