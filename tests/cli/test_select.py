"""`molattn select`: rows of a pool with all their columns, the first choice first."""

import csv
from pathlib import Path

import pytest

from molattn import load
from tests.cli.conftest import Molattn
from tests.molecules import esol


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eighty molecules and a bad row, with names."""
    path = tmp_path_factory.mktemp("pool") / "pool.csv"
    rows = [f'm{i},{s},"a, b"' for i, s in enumerate(esol(80)[0])]
    rows[3:3] = ["bad,C1CC,"]
    path.write_text("\n".join(["name,smiles,note", *rows]) + "\n")
    return path


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_rows_have_all_columns_in_the_order_of_their_scores(
    molattn: Molattn, run: Path, pool: Path, tmp_path: Path
) -> None:
    code, out, err = molattn("select", run, pool, "-n", "5", "--strategy", "diverse", "-o", tmp_path / "next.csv")
    assert (code, out) == (0, "")
    assert "1 of 81 rows have no prediction; the first, line 5: " in err
    assert "5 of 81 molecules selected" in err
    found, of_pool = read(tmp_path / "next.csv"), {row["name"]: row for row in read(pool)}
    assert [row["selection_rank"] for row in found] == ["1", "2", "3", "4", "5"]
    scores = [float(row["selection_score"]) for row in found]
    assert scores == sorted(scores, reverse=True)
    for row in found:
        assert {name: row[name] for name in ("name", "smiles", "note")} == of_pool[row["name"]]
    predictor = load(run)
    readable = [row["smiles"] for row in of_pool.values() if row["name"] != "bad"]
    selection = predictor.select(readable, 5, strategy="diverse")
    assert [row["smiles"] for row in found] == [readable[i] for i in selection.rows]
    predicted = [float(row[f"{predictor.targets[0]}_pred"]) for row in found]
    assert predicted == pytest.approx(predictor.predict([row["smiles"] for row in found]).tolist(), rel=1e-5)


def test_without_an_output_the_table_is_printed(molattn: Molattn, run: Path, pool: Path) -> None:
    code, out, _ = molattn("select", run, pool, "-n", "2", "--strategy", "diverse", "--quiet")
    assert code == 0
    assert out.startswith("name,smiles,note,")
    assert len(out.splitlines()) == 3


@pytest.mark.parametrize("suffix", ["xlsx", "parquet", "sdf", "tsv"])
def test_every_format_is_written(molattn: Molattn, run: Path, pool: Path, tmp_path: Path, suffix: str) -> None:
    output = tmp_path / f"next.{suffix}"
    assert molattn("select", run, pool, "-n", "3", "--strategy", "diverse", "-o", output).code == 0
    code, out, _ = molattn("select", run, output, "-n", "9", "--strategy", "diverse")
    assert code == 0
    assert len(out.splitlines()) == 4


def test_a_typed_table_keeps_its_types(molattn: Molattn, run: Path, tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.table({"id": list(range(30)), "smiles": esol(30)[0]})
    parquet.write_table(table, tmp_path / "pool.parquet")
    output = tmp_path / "next.parquet"
    assert molattn("select", run, tmp_path / "pool.parquet", "-n", "4", "--strategy", "diverse", "-o", output).code == 0
    found = parquet.read_table(output)
    assert found.schema.field("id").type == pa.int64()
    assert [table["smiles"][i].as_py() for i in found["id"].to_pylist()] == found["smiles"].to_pylist()


def test_errors_are_one_sentence(molattn: Molattn, run: Path, pool: Path, tmp_path: Path) -> None:
    code, _, err = molattn("select", run, pool, "-n", "3")
    assert (code, err.count("\n")) == (2, 1)
    assert "needs standard deviations" in err
    assert molattn("select", run, pool, "-n", "0").code == 2
    code, _, err = molattn("select", run, pool, "--strategy", "diverse", "--strict", "-o", tmp_path / "x.csv")
    assert code == 4
    assert "line 5" in err
    assert not (tmp_path / "x.csv").exists()
    assert molattn("select", run, pool, "--strategy", "diverse", "-o", pool).code == 2
    assert molattn("select", run, tmp_path / "missing.csv", "--strategy", "diverse").code in (2, 3)
