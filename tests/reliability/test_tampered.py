"""Line 45: a checkpoint with changed content and valid checksums is an error of one sentence, or resumes."""

import copy
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from safetensors.torch import load_file

from molattn.errors import InputError, UsageError
from molattn.training.prepare import prepare
from tests.reliability.folders import change_tensors
from tests.reliability.score import Score
from tests.training.runs import interrupt, resume, small_table
from tests.training.test_tampered import state_of, tamper

OTHERS: tuple[Any, ...] = (None, True, -1, 10**30, 0.5, float("nan"), float("inf"), "x", "\ud800\n", [], {}, [[1]])


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container within plain values, with each of its keys; of a long list the first and the last."""
    if isinstance(value, dict | list):
        keys = list(value) if isinstance(value, dict) else sorted({0, len(value) - 1} & set(range(len(value))))
        for key in keys:
            yield value, key
            yield from _places(value[key])


def _tampered(state: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each key removed, and each value of each other kind."""
    for number, (whole, key) in enumerate(_places(state)):
        for other in (*OTHERS, "removed"):
            changed = copy.deepcopy(state)
            place, at = list(_places(changed))[number]
            if other == "removed":
                del place[at]
            else:
                place[at] = copy.deepcopy(other)
            if repr(place) != repr(whole):
                yield f"{key!r} {other!r}", changed


def _resume_error(run: Path) -> str:
    """The error of a run that cannot be resumed; empty if it resumes."""
    try:
        resume(run)
    except (InputError, UsageError) as error:
        message = str(error)
    else:
        return ""
    assert "\n" not in message and str(run) in message, message
    assert len(message) < 1_000 + len(str(run))
    return message


def test_45_tampered_checkpoints(score: Score, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, read = tmp_path / "run", list[Any]()
    interrupt(small_table(tmp_path / "t.csv"), run, 2, epochs=4)

    def once(*arguments: Any) -> Any:
        read.append(prepare(*arguments) if not read else read[0])
        return read[0]

    monkeypatch.setattr("molattn.training.prepare.prepare", once)
    whole, state = tmp_path / "whole", state_of(run)
    shutil.copytree(run, whole)
    tensors = load_file(run / "checkpoint" / "epoch-1.safetensors")
    rng, changes = Random(0), list(_tampered(state))
    score.check(len(changes) > 500, f"{len(changes)} changes")

    def tried(what: str) -> None:
        score.count("tampered checkpoints")
        try:
            message = _resume_error(run)
        except Exception as error:
            score.check(False, f"{what}: {type(error).__name__}: {error}")
        else:
            score.count("refused" if message else "went on")
            words = ("is damaged", "cannot be resumed, since", "another molattn", "no finite validation loss")
            score.check(not message or any(word in message for word in words), f"{what}: {message}")
        shutil.rmtree(run)
        shutil.copytree(whole, run)

    for what, changed in rng.sample(changes, score.times(6, len(changes))):
        tamper(run, changed)
        tried(what)
    for k in range(score.times(4, 200)):
        other = {name: x.clone() for name, x in tensors.items()}
        change_tensors(other, rng)
        tamper(run, copy.deepcopy(state), other)
        tried(f"tensors {k}")
