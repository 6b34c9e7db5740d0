"""`molattn doctor`: what is here, and what fails."""

import json
from pathlib import Path

import pytest

from molattn.cli import doctor
from tests.cli.conftest import Molattn


def test_all_is_well_here(molattn: Molattn) -> None:
    answer = molattn("doctor")
    assert answer.code == 0, answer.out
    assert all(line.startswith("ok") for line in answer.out.splitlines())
    for word in (
        "torch",
        "rdkit",
        "lightning",
        "torch-geometric",
        "processors",
        "GPU",
        "reader",
        "extras",
        "esol",
        "cache",
    ):
        assert word in answer.out


def test_what_fails_is_marked(molattn: Molattn, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(doctor.PACKAGES, "rdkit", "no_such_module")
    monkeypatch.chdir(tmp_path)
    answer = molattn("doctor", "--json")
    assert answer.code == 1
    report = json.loads(answer.out)
    assert report["ok"] is False
    (failed,) = (check for check in report["checks"] if not check["ok"])
    assert failed["name"] == "rdkit" and "pip install 'rdkit'" in failed["found"]
    assert "FAIL  rdkit" in molattn("doctor").out
