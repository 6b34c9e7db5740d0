"""Distributed training: the batches of each rank, and the same result as with one process."""

import csv
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest

import molattn
from molattn.data.store.batches import BucketBatchSampler
from molattn.errors import UsageError
from molattn.training import distributed
from molattn.training.config import TrainingConfig
from tests.training.distributed_cases import CASES, train
from tests.training.runs import REPOSITORY, small_table


@pytest.mark.parametrize(("molecules", "batch", "size"), [(101, 32, 2), (97, 32, 3), (7, 32, 8), (64, 8, 8), (9, 4, 3)])
def test_ranks_partition_each_epoch(molecules: int, batch: int, size: int) -> None:
    sizes = np.random.default_rng(0).integers(1, 40, molecules)
    shares = [BucketBatchSampler(sizes, batch, 0, rank=rank, world_size=size) for rank in range(size)]
    alone = BucketBatchSampler(sizes, batch, 0)
    for epoch in range(3):
        for sampler in (alone, *shares):
            sampler.set_epoch(epoch)
        parts = [list(sampler) for sampler in shares]
        assert {len(sampler) for sampler in shares} == {len(part) for part in parts} == {len(alone)}
        steps = list(zip(*parts, strict=True))
        assert [sorted(i for share in step for i in share) for step in steps] == [sorted(step) for step in alone]
        assert sorted(i for part in parts for share in part for i in share) == list(range(molecules))
        assert all(max(map(len, step)) - min(map(len, step)) <= 1 for step in steps)


def test_collective_operations_of_a_single_process() -> None:
    assert (
        distributed.world_size(),
        distributed.rank(),
        distributed.is_main_process(),
        distributed.launched_world_size(),
    ) == (1, 0, True, 1)
    assert distributed.all_gather("x") == ["x"] and distributed.broadcast_object(lambda: 5) == 5
    with distributed.process_group(TrainingConfig()):
        assert distributed.world_size() == 1


@pytest.mark.parametrize(
    ("settings", "size", "local_size", "message"),
    [
        ({"devices": "2"}, 1, 1, "take 2 processes, which `molattn train` or torchrun starts"),
        ({"devices": "4"}, 2, 2, "torchrun started 2 processes on this machine, and devices=4"),
        ({"num_nodes": 4}, 4, 2, "torchrun started processes on 2 machines, and num_nodes=4"),
        ({"devices": "2", "num_nodes": 2}, 4, 2, ""),
        ({}, 4, 2, ""),
    ],
)
def test_world_size_must_match_the_settings(
    monkeypatch: pytest.MonkeyPatch, settings: dict, size: int, local_size: int, message: str
) -> None:
    if size > 1:
        for name, value in (("RANK", 0), ("WORLD_SIZE", size), ("LOCAL_WORLD_SIZE", local_size)):
            monkeypatch.setenv(name, str(value))
    if not message:
        distributed.check_world_size(TrainingConfig(**settings))
        return
    with pytest.raises(UsageError, match=message):
        distributed.check_world_size(TrainingConfig(**settings))


def test_training_from_python_starts_no_processes(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="this is a single process"):
        molattn.train(small_table(tmp_path / "t.csv"), output_dir=tmp_path / "run", devices="2", quiet=True)
    assert not (tmp_path / "run").exists()


def test_local_rendezvous_listens_on_the_loopback_interface_only(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "")  # restored at the end
    monkeypatch.delenv("GLOO_SOCKET_IFNAME")
    monkeypatch.delenv("TORCHELASTIC_USE_AGENT_STORE", raising=False)
    variables = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    arguments = distributed._rendezvous()
    assert (arguments["rank"], arguments["world_size"]) == (0, 1)
    listening = [c.laddr for c in psutil.Process().net_connections("inet") if c.status == psutil.CONN_LISTEN]
    assert [address.ip for address in listening if address.port == port] == ["127.0.0.1"]
    assert os.environ["GLOO_SOCKET_IFNAME"] in ("lo", "lo0")
    # With other machines, or a store made by torchrun, torch's own rendezvous is used.
    monkeypatch.setenv("MASTER_ADDR", "10.1.2.3")
    assert distributed._rendezvous() == {}
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    assert distributed._rendezvous() == {}


def test_the_process_group_stays_for_further_trainings_and_is_destroyed_before_the_interpreter_ends() -> None:
    code = (
        "import atexit\n"
        "import torch.distributed as dist\n"
        "from molattn.training.config import TrainingConfig\n"
        "from molattn.training.distributed import all_gather, process_group, rank\n"
        "atexit.register(lambda: print('at the end', dist.is_initialized()))\n"  # runs last: it was registered first
        "for _ in range(2):\n"
        "    with process_group(TrainingConfig(accelerator='cpu')):\n"
        "        print(all_gather(rank()))\n"
        "print('after training', dist.is_initialized())\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    variables = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    ranks = [
        subprocess.Popen([sys.executable, "-c", code], cwd=REPOSITORY, env=env, stdout=subprocess.PIPE, text=True)
        for env in ({**variables, "RANK": str(rank)} for rank in range(2))
    ]
    try:
        for process in ranks:
            output, _ = process.communicate(timeout=120)
            assert output.splitlines() == ["[0, 1]", "[0, 1]", "after training True", "at the end False"]
            assert process.returncode == 0
    finally:
        for process in ranks:
            process.kill()


@pytest.mark.finished_runs
@pytest.mark.slow
def test_two_ranks_train_like_one_process(tmp_path: Path) -> None:
    """Weights, missing labels, auxiliary targets, ensembles and folds, from Python with torchrun."""
    arguments = ["-m", "tests.training.distributed_cases", str(tmp_path / "two")]
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


@pytest.mark.parametrize(
    ("wait", "cleans_up"), [("store.get('never set')", False), ("time.sleep(100)", True)], ids=["torch", "Python"]
)
def test_sigterm_ends_a_rank_wherever_it_waits(wait: str, cleans_up: bool) -> None:
    code = (
        "import sys, time\n"
        "from datetime import timedelta\n"
        "from torch.distributed import TCPStore\n"
        "from molattn.training.signals import end_on_sigterm, exit_on_sigterm\n"
        "store = TCPStore('127.0.0.1', 0, 1, True, timeout=timedelta(seconds=100))\n"
        "try:\n"
        "    with end_on_sigterm(1.0), exit_on_sigterm():\n"
        "        print('ready', flush=True)\n"
        f"        {wait}\n"
        "finally:\n"
        "    print('cleaned up', flush=True)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 143
            # A main thread that runs Python gets to its cleanup code; one that waits in torch does not, unless the
            # signal came before it began to wait.
            assert process.stdout.read() in ({"cleaned up\n"} if cleans_up else {"", "cleaned up\n"})
        finally:
            process.kill()


def test_a_process_that_survives_sigterm_is_not_ended_outside_the_block() -> None:
    code = (
        "import os, signal, time\n"
        "from molattn.training.signals import end_on_sigterm\n"
        "signal.signal(signal.SIGTERM, lambda *_: None)\n"
        "with end_on_sigterm(0.5):\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "time.sleep(1.0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
