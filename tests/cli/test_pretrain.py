"""`molattn pretrain`: a base from a table of molecules, which `molattn train --base` starts from."""

import tomllib
from pathlib import Path

import pytest

from molattn.chem import grow_molecules
from molattn.cli.pretrain import DEFAULTS
from molattn.data.datasets.excluded_molecules import evaluation_molecules
from molattn.training.pretrain_config import PRETRAINING, PretrainConfig
from tests.cli.conftest import Molattn
from tests.molecules import esol

GIVEN = [s for s in esol(30)[0] if "." not in s]
SMALL = (
    "--epochs",
    "1",
    "--set",
    "model.num_layers=1",
    "--set",
    "model.hidden_dim=16",
    "--set",
    "training.accelerator=cpu",
)


def test_from_molecules_to_a_base_to_a_run(molattn: Molattn, table: Path, tmp_path: Path) -> None:
    molecules = grow_molecules(GIVEN, 12, seed=3, is_excluded=lambda s: s in evaluation_molecules())
    (tmp_path / "mine.csv").write_text(
        "\n".join(["id,SMILES", *(f"{i},{s}" for i, s in enumerate([*molecules, "CCO"]))])
    )
    base = tmp_path / "base"
    result = molattn("pretrain", tmp_path / "mine.csv", "--grow", 6, *SMALL, "-o", base)
    assert result.code == 0, result.err
    assert "18 molecules, 6 of them generated from the others" in result.err
    assert "left out: 1, a molecule that models are evaluated on" in result.err
    assert f"--base {base}" in result.out
    card = tomllib.loads((base / "card.toml").read_text())
    assert card["molecules"]["generated"] == 6
    assert "--grow 6" in card["command"]
    run = tmp_path / "run"
    result = molattn("train", table, "--base", base, "--epochs", 1, "--accelerator", "cpu", "-o", run)
    assert result.code == 0, result.err
    assert f"training starts from the base model {base}" in result.err
    config = tomllib.loads((run / "config.toml").read_text())
    assert config["training"]["base"] == str(base)
    assert config["model"]["hidden_dim"] == 16
    assert molattn("predict", run, "--smiles", "CCO").code == 0
    result = molattn("train", table, "--base", base, "--set", "model.hidden_dim=32", "-o", tmp_path / "other")
    assert result.code == 2
    assert "model.hidden_dim is 32 and was 16" in result.err


def test_invalid_arguments_are_refused_in_one_sentence(molattn: Molattn, tmp_path: Path) -> None:
    for arguments, code, reason in (
        (("pretrain", tmp_path / "nowhere.smi", "-o", tmp_path / "base"), 2, "there is no file"),
        (("pretrain", "--molecules", "zinc", "-o", tmp_path / "base"), 2, "--molecules is nci"),
        (("pretrain", "--masked-atoms", "1.5", "-o", tmp_path / "base"), 2, "masked_atoms is at least 0"),
        (("pretrain", "--resume", "-o", tmp_path / "base"), 2, "nothing to resume"),
        (("train", "--dataset", "esol", "--base", "mine", "-o", tmp_path / "run"), 2, "there is no base model 'mine'"),
    ):
        result = molattn(*arguments)
        assert (result.code, result.out) == (code, ""), result.err
        assert reason in result.err
        assert len(result.err.strip().splitlines()) == 1
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--smiles-column", "smi"), "--smiles-column needs a table"),
        (("--no-header-row", "--sheet", "A", "--molecules", "nci"), "--no-header-row, --sheet need a table"),
        (("--set", "data.decimal=,"), "data.decimal needs a table of molecules"),
    ],
)
def test_options_for_reading_a_table_need_one(
    molattn: Molattn, tmp_path: Path, arguments: tuple[str, ...], reason: str
) -> None:
    result = molattn("pretrain", *arguments, "-o", tmp_path / "base")
    assert (result.code, result.out) == (2, "") and reason in result.err
    assert not any(tmp_path.iterdir())


def test_the_defaults_of_the_help_are_those_of_pretraining() -> None:
    plain = PretrainConfig()
    assert {
        "masked_atoms": plain.masked_atoms,
        "masked_weight": plain.masked_weight,
        "epochs": PRETRAINING["epochs"],
        "batch_size": PRETRAINING["batch_size"],
    } == DEFAULTS
    assert plain.run.training.seed == 0
