"""Several values after one option, patterns of columns, and the predictions of many targets."""

import tomllib
from pathlib import Path

import numpy as np
import pytest
from typer.main import get_command

from molattn.cli.main import app
from molattn.cli.multi_value_options import repeat_options
from molattn.errors import UsageError
from molattn.training.config import DataConfig
from molattn.training.table_source import expand_columns, find_table
from tests.cli.conftest import Molattn
from tests.molecules import esol

QUICK = ("--epochs", "1", "--set", "model.num_layers=1", "--set", "model.hidden_dim=8", "--accelerator", "cpu")
TRAIN = get_command(app).commands["train"]  # pyright: ignore[reportAttributeAccessIssue]
EVALUATE = get_command(app).commands["evaluate"]  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    ("given", "repeated"),
    [
        ("t.csv --target-columns A B -q", "t.csv --target-columns A --target-columns B -q"),
        ("t.csv -q --target-columns A B --epochs 3", "t.csv -q --target-columns A --target-columns B --epochs 3"),
        ("--dataset tox21 --target-columns A B", "--dataset tox21 --target-columns A --target-columns B"),
        ("--target-columns A B --dataset=tox21", "--target-columns A --target-columns B --dataset=tox21"),
        ("t.csv --target-columns=A B", "t.csv --target-columns=A --target-columns B"),
        ("t.csv --metric auroc auprc --set a.b=1 c.d=2", "t.csv --metric auroc --metric auprc --set a.b=1 --set c.d=2"),
        ("t.csv --split-sizes 0.8 0.1 0.1", "t.csv --split-sizes 0.8 --split-sizes 0.1 --split-sizes 0.1"),
        ("t.csv --split-sizes 0.8,0.1,0.1", "t.csv --split-sizes 0.8 --split-sizes 0.1 --split-sizes 0.1"),
        ("t.csv --split-sizes=0.8,0.1,0.1", "t.csv --split-sizes 0.8 --split-sizes 0.1 --split-sizes 0.1"),
        # A number cannot be the table.
        ("--split-sizes 0.8 0.1 0.1 t.csv", "--split-sizes 0.8 --split-sizes 0.1 --split-sizes 0.1 t.csv"),
        # The one argument that follows the only value is the table.
        ("--target-columns A t.csv", "--target-columns A t.csv"),
        ("-qn 3 --target-columns A t.csv", "-qn 3 --target-columns A t.csv"),
        ("-b 3 --target-columns A -- t.csv", "-b 3 --target-columns A -- t.csv"),
        ("t.csv --target-columns A -- B C", "t.csv --target-columns A -- B C"),
        ("t.csv --target-columns", "t.csv --target-columns"),
    ],
)
def test_an_option_is_repeated_for_each_of_its_values(given: str, repeated: str) -> None:
    assert repeat_options(TRAIN.params, given.split()) == repeated.split()
    assert repeat_options(TRAIN.params, repeated.split()) == repeated.split()


@pytest.mark.parametrize(
    "given",
    [
        "--target-columns A B t.csv",
        "--target-columns A B --epochs 3 t.csv",
        "--config c.toml --target-columns A B",
        "--target-columns A B --metric auroc auprc",
    ],
)
def test_a_text_that_may_be_a_value_or_a_table_is_an_error(given: str) -> None:
    with pytest.raises(UsageError, match="may be one of its values or a table: give the table before --"):
        repeat_options(TRAIN.params, given.split())


def test_all_positional_arguments_come_before_several_values() -> None:
    given = ["run", "t.csv", "--metric", "mae", "rmse"]
    assert repeat_options(EVALUATE.params, given) == ["run", "t.csv", "--metric", "mae", "--metric", "rmse"]
    assert repeat_options(EVALUATE.params, ["run", "--metric", "mae", "t.csv"]) == ["run", "--metric", "mae", "t.csv"]
    with pytest.raises(UsageError, match="'rmse' after --metric may be"):
        repeat_options(EVALUATE.params, ["run", "--metric", "mae", "rmse", "t.csv"])


def test_patterns_and_lists_of_columns() -> None:
    columns = ("smiles", "tox_a", "tox_b", "logP", "a,b", "c [mol/L]", " d ", "what?")

    def expand(*texts: str) -> tuple[str, ...]:
        return expand_columns(texts, columns, {"smiles", "logP"}, "--target-columns")

    assert expand("*") == ("tox_a", "tox_b", "a,b", "c [mol/L]", "d", "what?")
    assert expand("tox_*") == expand("tox_?") == expand("tox_a,tox_b") == expand("tox_a, tox_b") == ("tox_a", "tox_b")
    # A name that a column has is that column.
    assert expand("a,b") == ("a,b",)
    assert expand("what?") == ("what?",)
    assert expand("c [*]") == ("c [mol/L]",)
    assert expand("tox_b", "tox_*") == ("tox_b", "tox_a")
    # A column that a pattern does not choose can be named.
    assert expand("logP", "tox_a") == ("logP", "tox_a")
    assert expand("z") == ("z",)  # a later error, when the columns are resolved
    assert expand() == ()
    with pytest.raises(UsageError, match=r"--target-columns 'x\*' matches no column: the table has 'tox_a'"):
        expand("x*")


def test_columns_with_another_role_are_no_targets(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("smiles,a,b,w,set,phys_1,phys_2\nC,1,2,3,train,4,5\n")
    settings = {"weight_column": "w", "split_column": "set", "descriptor_columns": ("phys_*",)}
    source = find_table(DataConfig(dataset=str(path), target_columns=("*",), **settings))
    assert source.config.target_columns == ("a", "b")
    assert source.config.descriptor_columns == ("phys_1", "phys_2")
    assert source.units == ("", "")
    assert "'*' in target_columns: 'a', 'b'" in source.columns_message
    assert find_table(DataConfig(dataset=str(path), target_columns=("a",))).columns_message == ""


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of six targets and another column."""
    path = tmp_path_factory.mktemp("many") / "t.csv"
    rows = [",".join([s, s, *(f"{y + k}" for k in range(6))]) for s, y in zip(*esol(40), strict=True)]
    path.write_text("\n".join(["smiles,name," + ",".join(f"t{k}" for k in range(6)), *rows]) + "\n")
    return path


def test_many_targets_are_learned_and_predicted_as_a_table(molattn: Molattn, many: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    answer = molattn("train", many, "--target-columns", "t0,t1", "t2", "t?", *QUICK, "-o", run)
    assert answer.code == 0, answer.err
    assert "'t0,t1', 't2', 't?' in target_columns: 't0', 't1', 't2', 't3', 't4', 't5'" in answer.err
    config = tomllib.loads((run / "config.toml").read_text())["data"]
    assert config["target_columns"] == [f"t{k}" for k in range(6)]
    answer = molattn("predict", run, "--smiles", "CCO", "--smiles", "C1CC", "--smiles", "c1ccccc1")
    assert answer.code == 0, answer.err
    rows = [line.split("\u2502")[1:4] for line in answer.out.splitlines() if "\u2502" in line]
    assert [row[0].strip() for row in rows] == [f"t{k}" for k in range(6)]
    import molattn as library

    predicted = library.load(run).predict(["CCO", "c1ccccc1"])
    printed = np.array([[float(cell) for cell in row[1:]] for row in rows])
    np.testing.assert_allclose(printed, predicted.T, atol=6e-4)
    assert "CCO" in answer.out and "c1ccccc1" in answer.out
    assert "C1CC  error: RDKit cannot read it" in answer.out
    assert max(map(len, answer.out.splitlines()[:-1])) <= 80
