"""`molattn export`, and `molattn predict` with what it wrote, where torch cannot be imported."""

import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import QUICK, Molattn
from tests.exports import needs_export
from tests.molecules import esol

pytestmark = needs_export

WITHOUT_TORCH = "import sys; sys.modules['torch'] = None; from molattn.cli.main import main; main()"
"""`molattn` in a process in which `import torch` fails."""

TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of an ensemble of two targets with computed descriptors, a calibration and a domain, exported into it."""
    folder = tmp_path_factory.mktemp("export")
    rows = [f"{s},{y},{-y}" for s, y in zip(*esol(60), strict=True)]
    (folder / "table.csv").write_text("\n".join(["smiles,y,z", *rows]) + "\n")
    options = ["--ensemble-size", "2", "--calibration-size", "0.3", "--molecule-featurizers", "rdkit_few", "--quiet"]
    targets = ["--target-columns", "y", "z"]
    for arguments in (
        ["train", str(folder / "table.csv"), *QUICK, *targets, *options, "-o", str(folder / "run")],
        ["export", str(folder / "run"), "--quiet"],
    ):
        subprocess.run([sys.executable, "-m", "molattn", *arguments], check=True)
    return folder / "run"


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pool") / "pool.csv"
    rows = [f'{i};"a, b";{s};0,5' for i, s in enumerate(["CCO", "C1CC", "c1ccccc1", "", "[2H]C", "C.[Na+]"])]
    path.write_text("\n".join(["row;note;SMILES;x", *rows]) + "\n")
    return path


def without_torch(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT_TORCH, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def cells(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file, delimiter=";"))


def assert_same_cells(found: list[list[str]], expected: list[list[str]]) -> None:
    assert found[0] == expected[0]
    assert len(found) == len(expected)
    for a, b in zip(found[1:], expected[1:], strict=True):
        for x, y in zip(a, b, strict=True):
            if x != y:
                numbers = [float(text.replace(",", ".")) for text in (x, y)]
                assert numbers[0] == pytest.approx(numbers[1], rel=TOLERANCE, abs=TOLERANCE)


@pytest.mark.parametrize("options", [[], ["--interval", "0.8"], ["--applicability", "--calibration-method", "none"]])
def test_a_table_without_torch(
    molattn: Molattn, calibrated: Path, pool: Path, tmp_path: Path, options: list[str]
) -> None:
    done = without_torch("predict", calibrated, pool, "--engine", "onnx", "-o", tmp_path / "onnx.csv", *options)
    assert (done.returncode, done.stdout) == (0, "")
    assert "2 of 6 rows have no prediction; the first, line 3: " in done.stderr
    expected = molattn("predict", calibrated, pool, "-o", tmp_path / "torch.csv", *options)
    assert done.stderr.replace("onnx.csv", "torch.csv") == expected.err
    assert_same_cells(cells(tmp_path / "onnx.csv"), cells(tmp_path / "torch.csv"))


def test_a_file_anywhere_without_torch(molattn: Molattn, calibrated: Path, pool: Path, tmp_path: Path) -> None:
    shutil.copy(calibrated / "model.onnx", tmp_path / "my model.onnx")
    done = without_torch("predict", tmp_path / "my model.onnx", "-s", "CCO", "-s", "C1CC", "--json")
    assert done.returncode == 0
    expected = json.loads(molattn("predict", calibrated, "-s", "CCO", "-s", "C1CC", "--json").out)
    for found, wanted in zip(json.loads(done.stdout), expected, strict=True):
        assert found.keys() == wanted.keys()
        for name, value in wanted.items():
            close = pytest.approx(value, rel=TOLERANCE, abs=TOLERANCE) if isinstance(value, float) else value
            assert found[name] == close
    output = tmp_path / "out.parquet"
    done = without_torch("predict", tmp_path / "my model.onnx", pool, "-o", output, "--num-workers", "2", "-q")
    assert (done.returncode, output.is_file()) == (0, True)


def test_where_torch_is_missing_the_engine_is_named(calibrated: Path) -> None:
    script = "import sys; sys.meta_path.insert(0, type('No', (), {'find_spec': staticmethod(find)}))"
    find = "def find(name, *_):\n    if name == 'torch': raise ModuleNotFoundError('no torch', name='torch')\n"
    code = f"{find}{script}\nfrom molattn.cli.main import main; main()"
    command = [sys.executable, "-c", code, "predict", str(calibrated), "-s", "C"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, "torch is not installed: molattn predict --engine onnx" in done.stderr) == (2, True)


def test_other_engines_and_devices_are_refused(molattn: Molattn, calibrated: Path, pool: Path) -> None:
    file = calibrated / "model.onnx"
    code, _, err = molattn("predict", file, pool, "--engine", "ray")
    assert (code, "the engine ray predicts with a run folder, not with" in err) == (2, True)
    code, _, err = molattn("predict", file, pool, "--accelerator", "gpu")
    assert (code, "the engine onnx predicts on CPUs in float32" in err) == (2, True)
    code, _, err = molattn("explain", file, "--smiles", "CCO")
    assert (code, "molattn.inference.OnnxPredictor" in err) == (2, True)


def test_a_run_without_the_file_or_with_that_of_another_model(
    molattn: Molattn, run: Path, calibrated: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    code, _, err = molattn("predict", copy, "-s", "C", "--engine", "onnx")
    assert (code, f"holds no model.onnx: write it with molattn export {copy}" in err) == (3, True)
    shutil.copy(calibrated / "model.onnx", copy)
    code, _, err = molattn("predict", copy, "-s", "C", "--engine", "onnx")
    assert (code, "was exported from another model" in err) == (3, True)


def test_outputs_and_formats(molattn: Molattn, run: Path, calibrated: Path, tmp_path: Path) -> None:
    code, _, err = molattn("export", run, "-o", tmp_path / "model.pt2")
    assert (code, err) == (0, f"written to {tmp_path / 'model.pt2'}\n")
    for arguments, message in (
        ([calibrated], "model.onnx exists: give another --output, or --force to replace it"),
        ([run, "-o", tmp_path / "model.bin"], "a model in the format onnx has the suffix .onnx, not model.bin"),
        ([run, "-o", tmp_path / "m.onnx", "--format", "torch"], "a model in the format torch has the suffix .pt2"),
        ([run, "--format", "tflite"], "unknown format 'tflite': choose one of onnx, torch"),
    ):
        code, _, err = molattn("export", *arguments)
        assert (code, err.count("\n"), message in err) == (2, 1, True), err
    code, _, err = molattn("export", run, "-o", tmp_path / "no" / "model.onnx")
    assert (code, "there is no folder" in err) == (3, True)
    assert sorted(os.listdir(tmp_path)) == ["model.pt2"]


def test_a_missing_package_names_the_extra(molattn: Molattn, run: Path, calibrated: Path, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("molattn.models.exported.write.find_spec", lambda _: None)
        code, _, err = molattn("export", run, "-o", tmp_path / "model.onnx")
        assert (code, "the export to ONNX needs onnx: pip install 'molattn[onnx]'" in err) == (5, True)
        patch.setitem(sys.modules, "onnxruntime", None)
        code, _, err = molattn("predict", calibrated / "model.onnx", "-s", "C")
        assert (code, "needs onnxruntime: pip install 'molattn[onnx]'" in err) == (5, True)
