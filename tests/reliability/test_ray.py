"""Line 27 on a cluster: the output of Ray is that of one process, even if workers die.

A Ray of several processes is started for each test.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from molattn.chem import nci_molecules
from tests.reliability.score import Score
from tests.training.runs import REPOSITORY

MOLATTN = (sys.executable, "-m", "molattn", "predict")
BAD = ("C1CC", "", "c1ccccc1c", "not a molecule", "[#119]", "[*H128]", "[CH260]")


def _tables(folder: Path, rows: int, files: int) -> list[Path]:
    """Tables of so many rows together, of which every 97th is refused."""
    smiles = nci_molecules(min(rows, 5000))
    cells = [BAD[i % len(BAD)] if i % 97 == 0 else smiles[i % len(smiles)] for i in range(rows)]
    folder.mkdir()
    step = -(-rows // files)
    for k in range(files):
        mine = cells[k * step : (k + 1) * step]
        table = pa.table({"id": list(range(k * step, k * step + len(mine))), "smiles": mine})
        pq.write_table(table, folder / f"{k}.parquet")
    return sorted(folder.iterdir())


def _started(*arguments: object) -> "subprocess.Popen[str]":
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [*MOLATTN, *map(str, arguments)]
    return subprocess.Popen(
        command, cwd=REPOSITORY, env=env, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )


def _seen(process: "subprocess.Popen[str]", found: Callable[[], list[Path]]) -> list[Path]:
    """The result, as soon as it is not empty."""
    until = time.monotonic() + 280
    while not (files := found()):
        assert process.poll() is None and time.monotonic() < until, process.communicate()
        time.sleep(0.005)
    return files


def _rows(folder: Path) -> list[dict[str, object]]:
    return [row for path in sorted(folder.glob("*.parquet")) for row in pq.read_table(path).to_pylist()]


def _alike(score: Score, found: Path, wanted: Path, rows: int) -> None:
    ours, theirs = _rows(found), _rows(wanted)
    score.rows([row["id"] for row in ours], range(rows), given=((row["id"], row["smiles"]) for row in ours))
    score.rows(ours, theirs)
    score.check(sum(row["status"] == "error" for row in ours) == -(-rows // 97), "rows were refused")
    score.check(sorted(p.name for p in found.iterdir()) == sorted(p.name for p in wanted.iterdir()), "files are left")
    same = [(found / p.name).read_bytes() == p.read_bytes() for p in sorted(wanted.iterdir())]
    score.check(all(same), f"the same to the byte: {same}")


@pytest.mark.slow
def test_27_ray_with_a_worker_killed(score: Score, run: Path, tmp_path: Path) -> None:
    rows = score.times(2001, 100_001)
    tables = _tables(tmp_path / "in", rows, score.times(5, 3))
    alone = _started(run, *tables, "-o", f"{tmp_path}/alone/", "-q")
    ray = _started(run, *tables, "-o", f"{tmp_path}/ray/", "-q", "--engine", "ray", "-n", "2")
    interrupted = False
    while not interrupted:  # a worker may be done with its part just before it is killed
        with suppress(FileNotFoundError, ProcessLookupError):
            paths = _seen(ray, lambda: [*(tmp_path / "ray").glob("*.parts/*.started")])
            worker = paths[0].read_text()
            if worker:
                os.kill(int(worker), signal.SIGKILL)
                interrupted = paths[0].exists()
    score.count("kills")
    for process in (alone, ray):
        _, err = process.communicate(timeout=score.times(280, 3000))
        score.check(process.returncode == 0, err)
    _alike(score, tmp_path / "ray", tmp_path / "alone", rows)


@pytest.mark.slow
def test_27_ray_killed_as_a_whole_and_resumed_without(score: Score, run: Path, tmp_path: Path) -> None:
    tables = _tables(tmp_path / "in", 801, 4)
    ray = _started(run, *tables, "-o", f"{tmp_path}/ray/", "-q", "--engine", "ray", "-n", "1")
    _seen(ray, lambda: [*(tmp_path / "ray").glob("*.parts/000000.json")])
    ray.kill()
    ray.communicate()
    score.count("kills")
    score.check(len([*(tmp_path / "ray").glob("*.parts")]) == 4, "it was done already")
    for folder, more in (("ray", ["--resume"]), ("alone", [])):
        process = _started(run, *tables, "-o", f"{tmp_path}/{folder}/", "-q", *more)
        _, err = process.communicate(timeout=200)
        score.check(process.returncode == 0, err)
    _alike(score, tmp_path / "ray", tmp_path / "alone", 801)
