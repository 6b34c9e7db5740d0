"""What is counted on the scoreboard: how much was tried, and what was lost, was wrong, or ran that must not."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
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
        hostile, rows_given: digests of the distinct hostile inputs and of the distinct rows that went end to end: from
            what a user gives (a cell, a file, an argument) through a command or `molattn.load` to its answer.
        lost_rows, wrong_rows, executed: rows that did not come back, that came back with another answer, and foreign
            code that ran.
        failed: what else did not hold, in words, with what it was tried on.
        notes: numbers to report that nothing is asserted of.
    """

    line: int
    test: str
    long: bool = False
    tried: Counter[str] = field(default_factory=Counter)
    hostile: set[str] = field(default_factory=set)
    rows_given: set[str] = field(default_factory=set)
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

    def end_to_end(self, inputs: Iterable[object]) -> None:
        """These hostile inputs went end to end; one that is tried again, here or in another test, counts once."""
        self.hostile |= {_digest(given) for given in inputs}

    def hold(self, holds: Any, said: object) -> bool:
        """Note, in words, what does not hold."""
        if not holds:
            self.failed.append(str(said)[:300])
        return bool(holds)

    def rows(
        self,
        found: Sequence[object],
        wanted: Sequence[object],
        said: object = "",
        given: Iterable[object] = (),
    ) -> None:
        """Compare rows with what they must be, in order; `given` are the rows of a table that were answered by them."""
        self.rows_given |= {_digest(row) for row in given}
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
        tried = self.tried or self.hostile or self.rows_given
        return bool(tried) and not (self.lost_rows or self.wrong_rows or self.executed or self.failed)

    def record(self, passed: bool) -> dict[str, Any]:
        """The count, as JSON has it."""
        content = {k: v for k, v in vars(self).items() if k not in ("failed", "long", "hostile", "rows_given")}
        distinct = {"hostile": len(self.hostile), "rows_given": len(self.rows_given)}
        return {**content, **distinct, "failed": self.failed[:10], "holds": passed and self.holds}

    def line_of_json(self, passed: bool) -> str:
        """The record with the digests themselves, so that several tests together can count what is distinct."""
        digests = {"hostile": sorted(self.hostile), "rows_given": sorted(self.rows_given)}
        return json.dumps({**self.record(passed), **digests})


def _digest(given: object) -> str:
    content = given if isinstance(given, bytes) else repr(given).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(content, digest_size=8).hexdigest()
