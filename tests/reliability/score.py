"""What is counted on the scoreboard: how much was tried, and what was lost, was wrong, or ran that must not."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Score:
    """The count of one test of one line; the test fails at its end if anything is lost.

    Attributes:
        line: its number on the scoreboard.
        test: the name of the test.
        long: whether it runs as `benchmarks/reliability.py` has it, or as the test suite does.
        tried: how many of what were tried.
        lost_rows, wrong_rows, executed: rows that did not come back, that came back with another answer, and foreign
            code that ran.
        failed: what else did not hold, in words, with what it was tried on.
        notes: numbers to report that nothing is asserted of.
    """

    line: int
    test: str
    long: bool = False
    tried: Counter[str] = field(default_factory=Counter)
    lost_rows: int = 0
    wrong_rows: int = 0
    executed: int = 0
    failed: list[str] = field(default_factory=list)
    notes: dict[str, float] = field(default_factory=dict)

    def times(self, short: int, long: int) -> int:
        """How often to try."""
        return long if self.long else short

    def count(self, what: str, number: int = 1) -> None:
        """So many more were tried."""
        self.tried[what] += number

    def hold(self, holds: Any, said: object) -> bool:
        """Note, in words, what does not hold."""
        if not holds:
            self.failed.append(str(said)[:300])
        return bool(holds)

    def rows(self, found: Sequence[object], wanted: Sequence[object], said: object = "") -> None:
        """Compare rows with what they must be, in order."""
        self.count("rows", len(wanted))
        self.lost_rows += abs(len(wanted) - len(found))
        wrong = [i for i, (a, b) in enumerate(zip(found, wanted, strict=False)) if a != b]
        self.wrong_rows += len(wrong)
        self.hold(len(wanted) == len(found), f"{len(found)} rows of {len(wanted)} {said}")
        self.hold(not wrong, f"{len(wrong)} wrong rows, the first {wrong[:1]} {said}")

    def slowest(self, name: str, seconds: float) -> None:
        """Keep the longest time that something took, to report it."""
        self.notes[name] = max(self.notes.get(name, 0.0), seconds)

    @property
    def holds(self) -> bool:
        """Whether nothing was lost, and something was tried."""
        return bool(self.tried) and not (self.lost_rows or self.wrong_rows or self.executed or self.failed)

    def record(self, passed: bool) -> str:
        """The count as a line of JSON."""
        content = {k: v for k, v in vars(self).items() if k not in ("failed", "long")}
        return json.dumps({**content, "failed": self.failed[:10], "holds": passed and self.holds})
