"""The plan past one machine: its arithmetic, its simulation, and the page that was made of them."""

import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from plan import Cluster, Costs, arithmetic, command, parse_arguments, simulate

PAGE = Path(__file__).parents[2] / "docs" / "scale.md"
STEADY = Cluster(workers=4, block_s=10.0, failures=0.0, slow_share=0.0, slow_times=4.0, notice_s=60.0, log_std=0.0)


def test_the_page_is_what_its_command_makes() -> None:
    page = PAGE.read_text(encoding="utf-8")
    found = re.search(r"Made by `python benchmarks/plan.py (.*?)`", page, re.DOTALL)
    assert found is not None
    costs, output = parse_arguments(shlex.split(found[1]))
    assert output == Path("docs/scale.md")
    assert command(costs) in page
    assert page.startswith(arithmetic(costs))


def test_every_cost_is_an_option() -> None:
    costs, _ = parse_arguments(["--predict-us", "250", "--failures", "0"])
    assert costs == replace(Costs(), predict_us=250.0, failures=0.0)
    assert command(costs).endswith(" --predict-us 250 --failures 0")
    assert "| prediction, core-hours | N x predict | 6.94 | 694 |" in arithmetic(costs)


@pytest.mark.parametrize(("blocks", "rounds"), [(1, 1), (4, 1), (5, 2), (40, 10)])
def test_without_failures_it_is_the_work_divided(blocks: int, rounds: int) -> None:
    outcome = simulate(STEADY, blocks, seed=0)
    assert outcome.seconds == pytest.approx(10 * rounds)
    assert (outcome.wasted, outcome.retries, outcome.copies) == (0, 0, 0)


def test_the_same_seed_is_the_same_run() -> None:
    cluster = replace(STEADY, failures=10.0, slow_share=0.3, log_std=0.2)
    assert simulate(cluster, 100, seed=1) == simulate(cluster, 100, seed=1) != simulate(cluster, 100, seed=2)


def test_failures_are_retried_and_cost_the_lost_work() -> None:
    failing = replace(STEADY, failures=60.0)
    outcome = simulate(failing, 200, seed=0)
    # A block of 10 s fails with a chance of 1 - exp(-10 / 60), after a bit less than 5 s on average.
    assert 20 < outcome.retries < 60
    assert 3 < outcome.wasted / outcome.retries < 7
    assert outcome.seconds > simulate(STEADY, 200, seed=0).seconds + outcome.wasted / 4
    assert simulate(replace(failing, backups=False), 1, seed=0).retries >= 0


def test_backups_end_the_wait_for_a_slow_worker() -> None:
    slow = replace(STEADY, workers=100, slow_share=0.05, slow_times=10.0)
    alone, helped = (simulate(replace(slow, backups=backups), 200, seed=0) for backups in (False, True))
    assert alone.seconds == pytest.approx(100)
    assert helped.seconds < 50
    assert helped.copies > 0 and helped.wasted > 0
