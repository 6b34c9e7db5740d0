"""GPUs that cannot be used, on machines that have none."""

from typing import Any

import pytest
import torch


def refuse_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make torch count two GPUs, and fail where their random numbers are read or seeded."""

    def refuse(*_: Any) -> None:
        raise RuntimeError("all CUDA-capable devices are busy or unavailable")

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for name in ("get_rng_state", "set_rng_state", "manual_seed", "manual_seed_all"):
        monkeypatch.setattr(torch.cuda, name, refuse)
