"""`--accelerator` and `--precision` of the commands that use a trained model."""

from pathlib import Path

import pytest
import torch

from tests.cli.conftest import Molattn

ONE = ["-s", "CCO"]
COMMANDS = {
    "predict": [*ONE],
    "evaluate": ["TABLE"],
    "embed": ["TABLE", "-o", "OUT.csv"],
    "attention": ["TABLE", "-o", "OUT.csv"],
    "explain": [*ONE, "-o", "OUT.svg"],
    "heads": ["TABLE"],
    "view": [*ONE, "-o", "OUT.html"],
    "faithfulness": [],
    "select": ["TABLE", "-n", "1", "--strategy", "diverse", "-o", "OUT.csv"],
}


def words_of(command: str, run: Path, table: Path, out: Path) -> list[str]:
    return [str(run), *(w.replace("TABLE", str(table)).replace("OUT", str(out)) for w in COMMANDS[command])]


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_gpu_that_is_not_there_is_one_sentence(command, molattn: Molattn, run: Path, table: Path, tmp_path: Path):
    answer = molattn(command, *words_of(command, run, table, tmp_path / "out"), "--accelerator", "gpu")
    assert answer.code == 2 and "torch finds no GPU here, see `molattn doctor`" in answer.err, answer.err
    assert not list(tmp_path.iterdir())


def test_auto_is_the_cpu_where_there_is_no_gpu(molattn: Molattn, run: Path):
    plain, auto = (molattn("predict", run, *ONE, *more) for more in ([], ["--accelerator", "auto"]))
    if not torch.cuda.is_available():
        assert plain.code == auto.code == 0 and plain.out == auto.out


def test_ray_predicts_in_float32_on_cpus(molattn: Molattn, run: Path, table: Path, tmp_path: Path):
    out = tmp_path / "out.csv"
    for option, value in (("--accelerator", "gpu"), ("--precision", "bf16-mixed")):
        answer = molattn("predict", run, table, "-o", out, "--engine", "ray", option, value)
        assert answer.code == 2 and "the engine ray predicts on CPUs in float32" in answer.err


def test_an_unknown_precision_is_refused(molattn: Molattn, run: Path):
    answer = molattn("predict", run, *ONE, "--precision", "16")
    assert answer.code == 2 and "unknown precision '16': choose one of 32-true, bf16-mixed" in answer.err
