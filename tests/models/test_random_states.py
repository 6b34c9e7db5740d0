"""Random numbers that begin at a seed, on the devices of a computation only."""

from contextlib import nullcontext
from typing import Any

import pytest
import torch

from molattn.models.random_states import seeded
from tests.gpus import refuse_gpus


def test_random_numbers_begin_at_the_seed_and_the_callers_are_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(3)
    wanted = torch.rand(4)
    refuse_gpus(monkeypatch)
    before = torch.get_rng_state()
    with seeded(3):
        assert torch.equal(torch.rand(4), wanted)
    assert torch.equal(torch.get_rng_state(), before)


def test_of_several_gpus_only_that_of_the_computation_is_seeded_and_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_gpus(monkeypatch)
    calls: list[Any] = []
    gpu, state = torch.device("cuda", 1), torch.zeros(1)
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda device: calls.append(("get", device)) or state)
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda x, device: calls.append(("set", device, x is state)))
    monkeypatch.setattr(torch.cuda, "device", lambda device: calls.append(("current", device)) or nullcontext())
    monkeypatch.setattr(torch.cuda, "manual_seed", lambda seed: calls.append(("seed", seed)))
    with seeded(3, gpu):
        assert calls == [("get", gpu), ("current", gpu), ("seed", 3)]
    assert calls[3:] == [("set", gpu, True)]
