"""Lines 29 to 31: several processes compute what one does, or end; concurrent downloads and builds happen once."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
import psutil
import pytest

from molattn.chem import nci_molecules
from tests.molecules import esol
from tests.reliability.score import Score
from tests.training.runs import REPOSITORY, same_runs

PLAIN = (sys.executable, "-m", "molattn")
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "molattn")
SMALL = ("--set", "model.num_layers=2", "--set", "model.hidden_dim=16", "--accelerator", "cpu", "-b", "16")


def _table(path: Path, count: int) -> Path:
    rows = [f"{s},{y}" for s, y in zip(*esol(count), strict=True)]
    path.write_text("\n".join(["smiles,y", *rows]) + "\n")
    return path


def _started(command: Sequence[object]) -> "subprocess.Popen[str]":
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([*map(str, command)], cwd=REPOSITORY, env=env, stderr=subprocess.PIPE, text=True)


def _done(score: Score, *command: object) -> None:
    process = _started(command)
    _, err = process.communicate(timeout=250)
    score.check(process.returncode == 0, f"{command}: {process.returncode}, {err}")


@pytest.mark.slow
@pytest.mark.parametrize("start", [PLAIN, TORCHRUN], ids=["plain", "torchrun"])
def test_29_two_ranks_and_101_rows(score: Score, tmp_path: Path, start: tuple[str, ...]) -> None:
    table = _table(tmp_path / "in.csv", 101)
    options = ("train", table, *SMALL, "--epochs", "5", "--set", "model.dropout=0", "-q", "-o")
    _done(score, *PLAIN, *options, tmp_path / "one")
    devices = ("--devices", "2")
    _done(score, *start, *options, tmp_path / "two", *devices)
    found, wanted = ([*csv.DictReader((tmp_path / run / "predictions.csv").open())] for run in ("two", "one"))
    score.count("ranks", 2)
    score.rows([row["row"] for row in found], [str(i) for i in range(101)])
    texts = [row["smiles"] for row in wanted]
    score.rows([row["smiles"] for row in found], texts, given=enumerate(texts))
    a, b = (np.array([float(row["y_pred"]) for row in rows]) for rows in (found, wanted))
    score.wrong_rows += int((np.abs(a - b) > 1e-4).sum())
    score.slowest("predictions of two ranks and of one process apart", float(np.abs(a - b).max()))
    metrics = [json.loads((tmp_path / run / "metrics.json").read_text()) for run in ("two", "one")]
    for side in ("train", "val", "test"):
        two, one = (m[side]["y"] for m in metrics)
        errors = [float(row["y_pred"]) - float(row["y"]) for row in found if row["split"] == side]
        rmse = float(np.sqrt(np.mean(np.square(errors))))
        score.check(two["n"] == one["n"] == len(errors), f"{side}: {two['n']} and {one['n']} of {len(errors)} rows")
        score.check(abs(two["rmse"] - rmse) < 1e-5, f"{side}: {two['rmse']} is not that of its rows, {rmse}")
        score.check(abs(two["rmse"] - one["rmse"]) < 1e-4, f"{side}: {two['rmse']} for {one['rmse']} of one process")
    for run in ("two", "one"):
        history = [*csv.DictReader((tmp_path / run / "history.csv").open())]
        best = history[metrics[0]["best_epoch"] - 1]
        score.check(abs(float(best["val_rmse"]) - metrics[0]["val"]["y"]["rmse"]) < 1e-4, f"{run}: {best}")


LONG = ("--epochs", "40")


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table, and an undisturbed run of two ranks on it."""
    folder = tmp_path_factory.mktemp("two")
    table = _table(folder / "in.csv", 101)
    process = _started([*PLAIN, "train", table, *SMALL, *LONG, "-q", "-o", folder / "run", "--devices", "2"])
    _, err = process.communicate(timeout=250)
    assert process.returncode == 0, err
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("killed", ["plain 0", "plain 1", "plain launcher", "torchrun 0", "torchrun 1"])
def test_30_a_rank_that_is_killed(score: Score, tmp_path: Path, two_ranks: Path, killed: str) -> None:
    rng = Random(killed)
    way, who = killed.split()
    start = PLAIN if way == "plain" else TORCHRUN
    for k in range(score.times(1, 5)):
        folder = tmp_path / str(k)
        process = _started([*start, "train", two_ranks / "in.csv", *SMALL, *LONG, "-q", "-o", folder, "--devices", "2"])
        try:
            until = time.monotonic() + 200
            while not (folder / "checkpoint" / "state.json").exists():
                assert process.poll() is None and time.monotonic() < until, process.communicate()
                time.sleep(0.01)
            children = psutil.Process(process.pid).children(recursive=True)
            ranks = {p.environ()["RANK"]: p for p in children if "RANK" in p.environ()}
            score.check(sorted(ranks) == ["0", "1"], f"ranks {ranks}")
            time.sleep(rng.uniform(0.0, 0.2))
            began = time.monotonic()
            os.kill(process.pid if who == "launcher" else ranks[who].pid, signal.SIGKILL)
            score.count("kills")
            score.check(process.wait(60) != 0, f"code {process.returncode}")
            _, left = psutil.wait_procs([*ranks.values()], timeout=60)
            seconds = time.monotonic() - began
            score.check(not left and seconds < 30, f"{left} still run after {seconds:.1f} s")
            score.slowest("seconds until all have ended", seconds)
            err = process.stderr.read() if process.stderr else ""
            if start == PLAIN and who != "launcher":
                score.check(process.returncode == 6 and "--resume" in err, f"code {process.returncode}: {err}")
        finally:
            process.kill()
        _done(score, *start, "train", "--resume", folder, "-q")
        same_runs(folder, two_ranks / "run")


def test_31_four_processes_on_a_cold_cache(score: Score, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smiles = nci_molecules(30)[:: score.times(20, 1)]
    (tmp_path / "smiles").write_text("\n".join(smiles))
    for k in range(score.times(1, 3)):
        here = tmp_path / str(k)
        here.mkdir()
        monkeypatch.setenv("MOLATTN_CACHE", str(here / "cache"))
        arguments = [here / "log", tmp_path / "smiles", -1, here / "start"]
        command = [sys.executable, "-m", "tests.data.fill_store", *map(str, arguments)]
        processes = [subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) for _ in range(4)]
        (here / "start").touch()
        reported = [process.communicate(timeout=250)[0].split() for process in processes]
        score.count("processes", len(processes))
        score.check(all(process.returncode == 0 for process in processes), "a process failed")
        score.check(len({checksum for checksum, _ in reported}) == 1, f"the data sets differ: {reported}")
        score.check(
            sorted(built for _, built in reported) == ["False", "False", "False", "True"], f"built by {reported}"
        )
        left = [path.name for path in (here / "cache" / "molecules").iterdir() if path.suffix != ".lock"]
        score.check(len(left) == 1, f"{left} lie in the cache")
        score.rows([(here / "log").stat().st_size], [len(smiles)], "molecules were read more than once")
