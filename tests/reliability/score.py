"""The scoreboard: the number of trials, of lost and wrong rows, and of executed foreign code."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Score:
    """The counts of one test of one line; the test fails at its end if anything was lost or wrong.

    Attributes:
        line: its number on the scoreboard.
        test: the name of the test.
        long: whether it is as long as in `benchmarks/reliability.py`, or as in the test suite.
        tried: the number of trials by name.
        hostile, rows_given: digests of the distinct hostile inputs and of the distinct rows that went end to end: from
            the input of a user (a cell, a file, an argument) through a command or `molattn.load` to its output.
        lost_rows, wrong_rows, executed: rows that were not returned, that were returned with a wrong result, and
            executions of foreign code.
        failed: messages of other failed checks, with their inputs.
        notes: numbers that are reported without being checked.
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
        """The number of trials."""
        return long if self.long else short

    def count(self, what: str, number: int = 1) -> None:
        """Add trials."""
        self.tried[what] += number

    def end_to_end(self, inputs: Iterable[object]) -> None:
        """Add hostile inputs that went end to end; duplicates, also of other tests, count once."""
        self.hostile |= {_digest(given) for given in inputs}

    def check(self, passed: Any, message: object) -> bool:
        """Record the message of a failed check."""
        if not passed:
            self.failed.append(str(message)[:300])
        return bool(passed)

    def rows(
        self,
        found: Sequence[object],
        expected: Sequence[object],
        message: object = "",
        given: Iterable[object] = (),
    ) -> None:
        """Compare rows with the expected ones, in order; `given` are the input rows of a table."""
        self.rows_given |= {_digest(row) for row in given}
        self.lost_rows += abs(len(expected) - len(found))
        wrong = [i for i, (a, b) in enumerate(zip(found, expected, strict=False)) if a != b]
        self.wrong_rows += len(wrong)
        self.check(len(expected) == len(found), f"{len(found)} rows of {len(expected)} {message}")
        self.check(not wrong, f"{len(wrong)} wrong rows, the first {wrong[:1]} {message}")

    def slowest(self, name: str, seconds: float) -> None:
        """Record the longest time that something took."""
        self.notes[name] = max(self.notes.get(name, 0.0), seconds)

    @property
    def holds(self) -> bool:
        """Whether something was tried, and nothing was lost or wrong."""
        tried = self.tried or self.hostile or self.rows_given
        return bool(tried) and not (self.lost_rows or self.wrong_rows or self.executed or self.failed)

    def record(self, passed: bool) -> dict[str, Any]:
        """The counts, as JSON."""
        content = {k: v for k, v in vars(self).items() if k not in ("failed", "long", "hostile", "rows_given")}
        distinct = {"hostile": len(self.hostile), "rows_given": len(self.rows_given)}
        return {**content, **distinct, "failed": self.failed[:10], "holds": passed and self.holds}

    def line_of_json(self, passed: bool) -> str:
        """The record with the digests, so that distinct inputs can be counted across tests."""
        digests = {"hostile": sorted(self.hostile), "rows_given": sorted(self.rows_given)}
        return json.dumps({**self.record(passed), **digests})


def _digest(given: object) -> str:
    content = given if isinstance(given, bytes) else repr(given).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(content, digest_size=8).hexdigest()
