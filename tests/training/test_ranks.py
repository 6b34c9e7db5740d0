"""Several processes that train one model: the shares of each, and the same training as that of one."""

import csv
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest

import molattn
from molattn.data.store.batches import SizeBuckets
from molattn.errors import UsageError
from molattn.training import ranks
from molattn.training.config import TrainingConfig
from tests.training.in_ranks import CASES, train
from tests.training.runs import REPOSITORY, small_table


@pytest.mark.parametrize(("molecules", "batch", "size"), [(101, 32, 2), (97, 32, 3), (7, 32, 8), (64, 8, 8), (9, 4, 3)])
def test_each_molecule_is_in_one_share_once_an_epoch(molecules: int, batch: int, size: int) -> None:
    sizes = np.random.default_rng(0).integers(1, 40, molecules)
    shares = [SizeBuckets(sizes, batch, 0, rank=rank, ranks=size) for rank in range(size)]
    alone = SizeBuckets(sizes, batch, 0)
    for epoch in range(3):
        for sampler in (alone, *shares):
            sampler.set_epoch(epoch)
        parts = [list(sampler) for sampler in shares]
        assert {len(sampler) for sampler in shares} == {len(part) for part in parts} == {len(alone)}
        steps = list(zip(*parts, strict=True))
        assert [sorted(i for share in step for i in share) for step in steps] == [sorted(step) for step in alone]
        assert sorted(i for part in parts for share in part for i in share) == list(range(molecules))
        assert all(max(map(len, step)) - min(map(len, step)) <= 1 for step in steps)


def test_one_process_is_answered_by_itself() -> None:
    assert (ranks.size(), ranks.rank(), ranks.is_first(), ranks.launched()) == (1, 0, True, 1)
    assert ranks.gathered("x") == ["x"] and ranks.from_first(lambda: 5) == 5
    with ranks.together(TrainingConfig()):
        assert ranks.size() == 1


@pytest.mark.parametrize(
    ("settings", "size", "here", "says"),
    [
        ({"devices": "2"}, 1, 1, "take 2 processes, which `molattn train` starts, or torchrun"),
        ({"devices": "4"}, 2, 2, "torchrun started 2 processes on this machine, and devices=4"),
        ({"num_nodes": 4}, 4, 2, "torchrun started processes on 2 machines, and num_nodes=4"),
        ({"devices": "2", "num_nodes": 2}, 4, 2, ""),
        ({}, 4, 2, ""),
    ],
)
def test_other_processes_than_were_asked_for(
    monkeypatch: pytest.MonkeyPatch, settings: dict, size: int, here: int, says: str
) -> None:
    if size > 1:
        for name, value in (("RANK", 0), ("WORLD_SIZE", size), ("LOCAL_WORLD_SIZE", here)):
            monkeypatch.setenv(name, str(value))
    if not says:
        ranks.check_ranks(TrainingConfig(**settings))
        return
    with pytest.raises(UsageError, match=says):
        ranks.check_ranks(TrainingConfig(**settings))


def test_python_starts_no_processes(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="this is one alone"):
        molattn.train(small_table(tmp_path / "t.csv"), output_dir=tmp_path / "run", devices="2", quiet=True)
    assert not (tmp_path / "run").exists()


def test_ranks_of_one_machine_meet_where_no_other_can_come(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "")  # it is put back at the end
    monkeypatch.delenv("GLOO_SOCKET_IFNAME")
    monkeypatch.delenv("TORCHELASTIC_USE_AGENT_STORE", raising=False)
    variables = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    meeting = ranks._meeting()
    assert (meeting["rank"], meeting["world_size"]) == (0, 1)
    mine = [c.laddr for c in psutil.Process().net_connections("inet") if c.status == psutil.CONN_LISTEN]
    assert [address.ip for address in mine if address.port == port] == ["127.0.0.1"]
    assert os.environ["GLOO_SOCKET_IFNAME"] in ("lo", "lo0")
    # Where other machines are asked for, or torchrun has made them meet, torch has its own way.
    monkeypatch.setenv("MASTER_ADDR", "10.1.2.3")
    assert ranks._meeting() == {}
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    assert ranks._meeting() == {}


@pytest.mark.slow
def test_two_ranks_train_as_one_process_does(tmp_path: Path) -> None:
    """Weights, missing labels, auxiliary targets, ensembles and folds, from Python, by torchrun."""
    arguments = ["-m", "tests.training.in_ranks", str(tmp_path / "two")]
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *arguments]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, env=env, timeout=250)
    assert done.returncode == 0, done.stderr
    for name in CASES:
        one = train(tmp_path / "one", name)
        first, second = (json.loads((tmp_path / f"two/{name}-{rank}.json").read_text()) for rank in range(2))
        assert first == second, name
        folder = tmp_path / "two" / name
        files = {p.relative_to(folder) for p in folder.rglob("*") if p.is_file()}
        assert files == {p.relative_to(one.folder) for p in one.folder.rglob("*") if p.is_file()}
        if name == "dropout":
            continue
        for path in folder.rglob("predictions.csv"):
            found, wanted = (list(csv.reader(p.open())) for p in (path, one.folder / path.relative_to(folder)))
            assert [row[:3] for row in found] == [row[:3] for row in wanted]
            a, b = (np.array([row[-1] for row in rows[1:]], float) for rows in (found, wanted))
            assert np.abs(a - b).max() < 1e-4, name
