"""What a contest is: an experiment in which others take part."""

from __future__ import annotations

from attnfun.experiments import Experiment


class Contest(Experiment):
    """An experiment that `python benchmarks/evidence.py` runs."""

    def command(self, quick: bool) -> str:
        """What a user types to run it."""
        return f"python benchmarks/evidence.py --part {self.name}{' --quick' * quick}"
