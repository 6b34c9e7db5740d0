"""`molattn doctor`: checks that pass and checks that fail."""

import json
from pathlib import Path

import pytest
import torch

from molattn.cli import doctor
from molattn.kernels import blocks, edge_attention, elementwise, loader, lookup, segments
from tests.cli.conftest import Molattn

KERNELS = (blocks, edge_attention, elementwise, lookup, segments)


def test_all_checks_pass(molattn: Molattn) -> None:
    answer = molattn("doctor")
    assert answer.code == 0, answer.out
    assert all(line.startswith("ok") for line in answer.out.splitlines())
    for word in (
        "torch",
        "rdkit",
        "torch-geometric",
        "processors",
        "GPU",
        "reader",
        "extras",
        "esol",
        "cache",
    ):
        assert word in answer.out


def test_failed_checks_are_marked(molattn: Molattn, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(doctor.PACKAGES, "rdkit", "no_such_module")
    monkeypatch.chdir(tmp_path)
    answer = molattn("doctor", "--json")
    assert answer.code == 1
    report = json.loads(answer.out)
    assert report["ok"] is False
    (failed,) = (check for check in report["checks"] if not check["ok"])
    assert failed["name"] == "rdkit" and "pip install 'rdkit'" in failed["found"]
    assert "FAIL  rdkit" in molattn("doctor").out


@pytest.mark.skipif(
    edge_attention.LIBRARY.loaded is None, reason=f"nothing is built: {edge_attention.LIBRARY.unavailable_reason()}"
)
def test_the_target_processor_and_reasons_for_no_compilation_are_reported(
    molattn: Molattn, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kernel in KERNELS:
        monkeypatch.setattr(kernel.LIBRARY, "origin", lambda: loader.COMPILED_HERE)
    assert "yes, compiled for this processor; set MOLATTN_MARCH to build for another" in molattn("doctor").out
    for kernel in KERNELS:
        monkeypatch.setattr(kernel.LIBRARY, "origin", lambda: "shipped for x86-64-v3, because there is no C compiler")
    assert "compiled attention  yes, shipped for x86-64-v3, because there is no C compiler\n" in molattn("doctor").out
    monkeypatch.setattr(edge_attention.LIBRARY, "origin", lambda: "shipped for x86-64-v4")
    assert "yes: blocks.c shipped for x86-64-v3, because" in (out := molattn("doctor").out)
    assert "; edge_attention.c shipped for x86-64-v4; " in out
    monkeypatch.setattr(edge_attention.LIBRARY, "unavailable_reason", lambda: "it is not there")
    assert "not all, torch's operations instead of edge_attention.c: it is not there" in molattn("doctor").out
    monkeypatch.setattr(blocks.LIBRARY, "unavailable_reason", lambda: "blocks.c is not there")
    assert "about 3 times slower: blocks.c is not there" in molattn("doctor").out
    monkeypatch.setenv("MOLATTN_BACKEND", "chunked, reference")
    assert "no, MOLATTN_BACKEND allows only chunked, reference" in molattn("doctor").out


def test_a_user_without_a_home_gets_advice_on_the_cache_folder(
    molattn: Molattn, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HOME", "XDG_CACHE_HOME", "MOLATTN_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", lambda uid: {}[uid])
    answer = molattn("doctor")
    assert answer.code == 1 and "set MOLATTN_CACHE to a folder" in answer.out


def test_a_gpu_is_named_by_what_drives_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert doctor._gpu() == "Apple GPU (MPS), which molattn does not use"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "Instinct")
    for hip, version in (("6.2", "ROCm 6.2"), (None, f"CUDA {torch.version.cuda}")):
        monkeypatch.setattr(torch.version, "hip", hip, raising=False)
        assert doctor._gpu() == f"Instinct; {version}"
