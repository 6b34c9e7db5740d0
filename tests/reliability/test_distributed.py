"""Line 31: processes that ask at once find the same, made once."""

import subprocess
import sys
from pathlib import Path

import pytest

from molattn.chem import nci_molecules
from tests.reliability.score import Score
from tests.training.runs import REPOSITORY


def test_31_four_processes_on_a_cold_cache(score: Score, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smiles = nci_molecules(30)[:: score.times(20, 1)]
    (tmp_path / "smiles").write_text("\n".join(smiles))
    for k in range(score.times(1, 3)):
        here = tmp_path / str(k)
        here.mkdir()
        monkeypatch.setenv("MOLATTN_CACHE", str(here / "cache"))
        arguments = [here / "log", tmp_path / "smiles", -1, here / "start"]
        command = [sys.executable, "-m", "tests.data.stores_molecules", *map(str, arguments)]
        processes = [subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) for _ in range(4)]
        (here / "start").touch()
        told = [process.communicate(timeout=250)[0].split() for process in processes]
        score.count("processes", len(processes))
        score.hold(all(process.returncode == 0 for process in processes), "a process failed")
        score.hold(len({checksum for checksum, _ in told}) == 1, f"the data sets differ: {told}")
        score.hold(sorted(built for _, built in told) == ["False", "False", "False", "True"], f"built by {told}")
        left = [path.name for path in (here / "cache" / "molecules").iterdir() if path.suffix != ".lock"]
        score.hold(len(left) == 1, f"{left} lie in the cache")
        score.rows([(here / "log").stat().st_size], [len(smiles)], "molecules were read more than once")
