"""Published results of benchmarks, from `published.json`, which has their sources and dates."""

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

MIN_ENTRIES = 10
"""Minimum number of entries of a leaderboard; ranks in shorter ones are not part of the mean rank."""


class PublishedEntry(NamedTuple):
    """One entry of a leaderboard.

    Attributes:
        name: the name of the model, as published.
        mean: mean of the test scores over seeds.
        std: their standard deviation; None if it was not published.

    >>> from molattn.benchmark import published_entries
    >>> published_entries("tdc", "caco2_wang")[0]
    PublishedEntry(name='CaliciBoost', mean=0.256, std=0.006)
    """

    name: str
    mean: float
    std: float | None


@cache
def load_published() -> dict[str, Any]:
    """The content of `published.json`."""
    return json.loads((Path(__file__).parent / "published.json").read_text(encoding="utf-8"))


def published_entries(group: str, task: str) -> list[PublishedEntry]:
    """The entries of a leaderboard, the best first; none if the tasks of the group have no leaderboards.

    Args:
        group: name of the benchmark, such as "tdc".
        task: name of the task, without the benchmark.

    Source: the leaderboards of TDC's ADMET group, https://tdcommons.ai, as of 2026-11-22.

    >>> from molattn.benchmark import published_entries
    >>> len(published_entries("tdc", "herg")), published_entries("moleculeace", "CHEMBL2034_Ki")
    (20, [])
    """
    if group != "tdc" or task not in load_published()["tdc"]:
        return []
    return [PublishedEntry(*entry) for entry in load_published()["tdc"][task]["entries"]]
