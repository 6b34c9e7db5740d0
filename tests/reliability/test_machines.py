"""Line 48: training and prediction do not depend on the machine, and no process listens to other machines.

`.ci/long` runs the whole suite with other processors, versions and thread counts; here their predictions are compared.
"""

import ipaddress
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from molattn import Predictor
from molattn.chem import nci_molecules
from tests.molecules import SPECIAL, esol
from tests.reliability.score import Score
from tests.training.runs import REPOSITORY, SMALL, same_runs, small_table

MOLATTN = (sys.executable, "-m", "molattn")
SECONDS = 280

TRAIN = """
import sys, molattn
for name, settings, epochs, batch in (("long", [], 2, 16), ("step", ["training.ema=0"], 1, 64)):
    threads = f"training.threads={sys.argv[3] if name == 'step' else 1}"
    options = {"settings": [*sys.argv[4:], threads, *settings], "epochs": epochs, "batch_size": batch}
    molattn.train(sys.argv[1], output_dir=f"{sys.argv[2]}/{name}", accelerator="cpu", quiet=True, **options)
"""
"""Two small trainings: one of several epochs in one thread, and one of a single step in any number of threads."""

PREDICT = """
import json, sys, molattn
model, smiles = molattn.load(sys.argv[1]), json.loads(sys.argv[2])
print(json.dumps([model.predict(smiles).tolist(), model.predict(smiles[::-1]).tolist()[::-1]]))
"""


def _python(code: str, *arguments: object, **variables: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", code, *map(str, arguments)]
    env = {**os.environ, **variables}
    return subprocess.Popen(command, cwd=REPOSITORY, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_48_hash_seeds_and_thread_counts(score: Score, tmp_path: Path) -> None:
    table = small_table(tmp_path / "in.csv")
    begun = {
        tmp_path / seed: _python(
            TRAIN, table, tmp_path / seed, threads, *SMALL, PYTHONHASHSEED=seed, OMP_NUM_THREADS="1"
        )
        for seed, threads in (("0", 1), ("1", 2), *((("random", 3),) if score.long else ()))
    }
    for process in begun.values():
        _, err = process.communicate(timeout=SECONDS)
        score.count("trainings", 2)
        assert process.returncode == 0, err
    first, *others = begun
    for other in others:
        same_runs(other / "long", first / "long")
        a, b = (_answers(folder / "step" / "predictions.csv") for folder in (other, first))
        apart = float((np.abs(a - b) / np.maximum(1, np.abs(b))).max())
        score.check(apart <= 1e-6, f"hash seed {other.name}: a step in more threads is {apart:.1e} apart")
        score.slowest("a step in one and more threads apart", apart)


def _answers(predictions: Path) -> np.ndarray:
    return np.array([float(line.rsplit(",", 1)[1]) for line in predictions.read_text().splitlines()[1:]])


def test_48_other_processors_give_the_same_predictions(score: Score, run: Path, predictor: Predictor) -> None:
    smiles = [*SPECIAL, *esol(score.times(20, 300))[0]]
    plain = {"MOLATTN_COMPILE": "0", "ATEN_CPU_CAPABILITY": "default", "OMP_NUM_THREADS": "1"}
    older = {"ATEN_CPU_CAPABILITY": "avx2", "OMP_NUM_THREADS": "2"}
    if platform.machine() == "x86_64":
        older["MOLATTN_MARCH"] = "x86-64-v3"
    wanted = predictor.predict(smiles)
    begun = [_python(PREDICT, run, json.dumps(smiles), **way) for way in (plain, older)]
    for process in begun:
        out, err = process.communicate(timeout=SECONDS)
        assert process.returncode == 0, err
        for found in json.loads(out):
            score.rows([len(found)], [len(wanted)])
            apart = float((np.abs(np.array(found) - wanted) / np.maximum(1, np.abs(wanted))).max())
            score.check(apart <= 1e-6, f"{apart:.1e} apart")
            score.slowest("processors apart", apart)
        score.count("processors")


@contextmanager
def _watched(score: Score, *command: object) -> Iterator[set[str]]:
    """The addresses on which a command and its child processes, those of Ray included, listened, once it is done."""
    found: set[str] = set()
    process = subprocess.Popen(
        [*map(str, command)], cwd=REPOSITORY, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    until = time.monotonic() + SECONDS
    while process.poll() is None and time.monotonic() < until:
        with suppress(psutil.Error):
            mine = psutil.Process(process.pid)
            for one in (mine, *mine.children(recursive=True)):
                with suppress(psutil.Error):
                    found |= {c.laddr.ip for c in one.net_connections("inet") if c.status == psutil.CONN_LISTEN}
        time.sleep(0.05)
    process.kill()
    _, err = process.communicate()
    assert process.returncode == 0, err
    score.count("commands")
    yield found


def _is_loopback(address: str) -> bool:
    found = ipaddress.ip_address(address)
    return (getattr(found, "ipv4_mapped", None) or found).is_loopback


def _listens_on_loopback_only(score: Score, *command: object) -> None:
    with _watched(score, *command) as addresses:
        score.check(bool(addresses), "it was not seen to listen")
        score.check(all(map(_is_loopback, addresses)), f"it listens on {sorted(addresses)}")


@pytest.mark.slow
def test_48_ranks_listen_on_the_loopback_interface_only(score: Score, tmp_path: Path) -> None:
    settings = ("--epochs", "2", "--accelerator", "cpu", "--devices", "2", "--set", SMALL[0], "--set", SMALL[1])
    table = small_table(tmp_path / "in.csv")
    _listens_on_loopback_only(score, *MOLATTN, "train", table, *settings, "-q", "-o", tmp_path / "run")


@pytest.mark.slow
def test_48_ray_listens_on_the_loopback_interface_only(score: Score, run: Path, tmp_path: Path) -> None:
    smiles = nci_molecules(20)
    pq.write_table(pa.table({"smiles": smiles}), tmp_path / "in.parquet")
    options = ("-o", tmp_path / "out.parquet", "-q", "--engine", "ray", "-n", "1")
    _listens_on_loopback_only(score, *MOLATTN, "predict", run, tmp_path / "in.parquet", *options)
