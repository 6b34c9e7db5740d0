"""The scoreboard: each test is named after its line number, and reports counts.

MOLATTN_RELIABILITY=long makes every test as long as `benchmarks/reliability.py` runs it; MOLATTN_SCORES names a file
that gets a line of JSON for every test.
"""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from molattn import Predictor, load
from tests.cli.conftest import molattn, run, table  # noqa: F401 (fixtures)
from tests.reliability.score import Score
from tests.viewer.conftest import browser, opened  # noqa: F401 (fixtures)

_PASSED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    report = yield
    if call.when == "call":
        item.stash[_PASSED] = call.excinfo is None
    return report


@pytest.fixture
def score(request: pytest.FixtureRequest, record_property: Any) -> Iterator[Score]:
    """The score of this test, which fails at its end if anything was lost."""
    found = re.match(r"test_(\d\d)_", request.node.name)
    assert found is not None, "a test of the scoreboard is named after its line"
    counted = Score(int(found[1]), request.node.name, os.environ.get("MOLATTN_RELIABILITY") == "long")
    yield counted
    passed = request.node.stash.get(_PASSED, False)
    record = json.dumps(counted.record(passed))
    record_property("score", record)
    if name := os.environ.get("MOLATTN_SCORES"):
        # Unbuffered, so that a line is one call that appends: workers write to the same file.
        with open(name, "ab", buffering=0) as file:
            file.write((counted.line_of_json(passed) + "\n").encode())
    if passed:
        assert counted.holds, record


@pytest.fixture(scope="session")
def predictor(run: Path) -> Predictor:  # noqa: F811
    """The model of the small run."""
    return load(run)
