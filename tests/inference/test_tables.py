"""`predict_table`, `embed_table` and `attention_table`: every row is in the output, and the bytes are the command's."""

import csv
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import molattn
from molattn.cli.main import main
from molattn.data.tables.parts import Parts, parts_folder
from molattn.data.tables.row_stream import CHUNK_SIZE
from molattn.errors import InputError, MolattnWarning, RowsFailed, UsageError
from molattn.explain import summarize_heads
from molattn.inference import PredictionOptions, output_parts
from molattn.inference.row_counts import AttentionCounts, RowCounts
from molattn.models.artifact_file import load_artifact
from tests.molecules import esol

ROWS = 2 * CHUNK_SIZE + 10
BAD = -(-ROWS // 97)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tables")
    rows = [f"{s},{y}" for s, y in zip(*esol(40), strict=True)]
    (root / "t.csv").write_text("\n".join(["smiles,y", *rows]) + "\n")
    small = ["model.num_layers=2", "model.hidden_dim=16", "model.num_heads=4"]
    return molattn.train(
        root / "t.csv", output_dir=root / "run", settings=small, epochs=2, accelerator="cpu", quiet=True
    ).folder


@pytest.fixture(scope="module")
def predictor(run: Path) -> molattn.Predictor:
    return molattn.load(run)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three chunks of rows, bad ones among them."""
    path = tmp_path_factory.mktemp("input") / "in.csv"
    cells = [("C" * (i % 5) + "NOF"[i % 3]) if i % 97 else "C1CC" for i in range(ROWS)]
    path.write_text("\n".join(["id,smiles", *(f"{i},{s}" for i, s in enumerate(cells))]) + "\n")
    return path


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """Three rows, of which the second is bad."""
    path = tmp_path / "few.csv"
    path.write_text("id,smiles\n1,CCO\n2,C1CC\n3,c1ccccc1\n")
    return path


def command(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> None:
    """Run `molattn` in this process."""
    with monkeypatch.context() as patch:
        patch.setattr(sys, "argv", ["molattn", *map(str, arguments), "-q"])
        # What the command sets for its own process.
        patch.setattr(warnings, "showwarning", warnings.showwarning)
        with pytest.raises(SystemExit) as stop:
            main()
    assert stop.value.code == 0


def rows_of(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_every_row_is_kept_in_order(
    monkeypatch: pytest.MonkeyPatch, predictor: molattn.Predictor, run: Path, table: Path, tmp_path: Path
) -> None:
    done: list[tuple[int, int | None]] = []
    with pytest.warns(MolattnWarning, match=f"{BAD} of {ROWS} rows have no prediction; the first, line 2"):
        counts = predictor.predict_table(table, tmp_path / "out.csv", progress=lambda *at: done.append(at))
    assert isinstance(counts, RowCounts)
    assert (counts.rows, counts.failed, counts.without_geometry) == (ROWS, BAD, 0)
    assert done[-1] == (ROWS, ROWS)
    found = rows_of(tmp_path / "out.csv")
    assert [(row["id"], row["smiles"]) for row in found] == [(r["id"], r["smiles"]) for r in rows_of(table)]
    assert [i for i, row in enumerate(found) if row["status"] == "error"] == list(range(0, ROWS, 97))
    assert all(bool(row["error"]) == (row["y_pred"] == "") for row in found)
    assert [p.name for p in tmp_path.iterdir()] == ["out.csv"]
    command(monkeypatch, "predict", run, table, "-o", tmp_path / "command.csv")
    assert (tmp_path / "command.csv").read_bytes() == (tmp_path / "out.csv").read_bytes()


class Interrupted(BaseException):
    """A stand-in for a signal."""


@pytest.mark.parametrize("resumed_by", ["predictor", "command"])
def test_an_interrupted_table_is_resumed(
    monkeypatch: pytest.MonkeyPatch,
    predictor: molattn.Predictor,
    run: Path,
    table: Path,
    tmp_path: Path,
    resumed_by: str,
) -> None:
    monkeypatch.setattr(output_parts, "CHUNKS_PER_PART", 1)
    out, whole = tmp_path / "out.csv", tmp_path / "whole.csv"
    finish = Parts.finish

    def interrupt(self: Parts, number: int, record: Any) -> None:
        finish(self, number, record)
        raise Interrupted

    with monkeypatch.context() as patch:
        patch.setattr(Parts, "finish", interrupt)
        with pytest.raises(Interrupted):
            predictor.predict_table(table, out)
    assert parts_folder(out).is_dir() and not out.exists()
    with pytest.raises(UsageError, match=r"--resume \(resume=True\) continues"):
        predictor.predict_table(table, out)
    with pytest.raises(InputError, match="has the parts of another output"):
        predictor.predict_table(table, out, resume=True, options=PredictionOptions(uncertainty_method="none"))
    if resumed_by == "command":
        command(monkeypatch, "predict", run, table, "-o", out, "--resume")
    else:
        read: list[object] = []
        predict_rows = molattn.Predictor.predict_rows

        def count(self: molattn.Predictor, smiles: Any, *rest: Any, **options: Any) -> Any:
            return predict_rows(self, (read.append(s) or s for s in smiles), *rest, **options)

        monkeypatch.setattr(molattn.Predictor, "predict_rows", count)
        with pytest.warns(MolattnWarning, match="have no prediction"):
            counts = predictor.predict_table(table, out, resume=True)
        assert (counts.rows, counts.failed) == (ROWS, BAD)
        assert len(read) == ROWS - CHUNK_SIZE
    with pytest.warns(MolattnWarning, match="have no prediction"):
        predictor.predict_table(table, whole)
    assert out.read_bytes() == whole.read_bytes()
    assert not parts_folder(out).exists()


def test_a_bad_row_stops_a_strict_table(predictor: molattn.Predictor, few: Path, tmp_path: Path) -> None:
    with pytest.raises(RowsFailed, match="line 3"):
        predictor.predict_table(few, tmp_path / "out.csv", strict=True)
    with pytest.raises(RowsFailed, match="line 3"):
        predictor.embed_table(few, tmp_path / "out.csv", strict=True)
    with pytest.raises(RowsFailed, match="line 3"):
        predictor.attention_table(few, tmp_path / "out.csv", strict=True)
    assert [p.name for p in tmp_path.iterdir()] == ["few.csv"]


def test_invalid_arguments_are_refused(predictor: molattn.Predictor, few: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    out.write_text("mine")
    for write in (predictor.predict_table, predictor.embed_table, predictor.attention_table):
        with pytest.raises(UsageError, match="exists"):
            write(few, out)
        with pytest.raises(InputError, match="no folder"):
            write(few, tmp_path / "no" / "out.csv")
    assert out.read_text() == "mine"
    other = tmp_path / "other.csv"
    with pytest.raises(UsageError, match="unknown engine 'spark'"):
        predictor.predict_table(few, other, engine="spark")
    with pytest.raises(UsageError, match="a shard is"):
        predictor.predict_table(few, other, shard=(3, 2))
    with pytest.raises(UsageError, match="layer is from 0 to 1, not 5"):
        predictor.attention_table(few, other, layer=5)
    with pytest.raises(UsageError, match=r"\.parquet or \.csv"):
        predictor.attention_table(few, tmp_path / "other.tsv")
    assert not other.exists()


def test_shards_joined_are_the_whole_table(predictor: molattn.Predictor, table: Path, tmp_path: Path) -> None:
    for name, shard in (("whole", None), ("1", (1, 2)), ("2", (2, 2))):
        with pytest.warns(MolattnWarning):
            predictor.predict_table(table, tmp_path / f"{name}.csv", shard=shard)
    first, second = (rows_of(tmp_path / f"{i}.csv") for i in (1, 2))
    assert first and second and first + second == rows_of(tmp_path / "whole.csv")


def test_several_tables_go_into_a_folder(predictor: molattn.Predictor, few: Path, tmp_path: Path) -> None:
    (tmp_path / "more.smi").write_text("CC one\nCCC two\n")
    with pytest.warns(MolattnWarning, match=rf"1 of 5 rows have no prediction; the first, {few}, line 3"):
        counts = predictor.predict_tables([few, tmp_path / "more.smi"], tmp_path / "out")
    assert (counts.rows, counts.failed) == (5, 1)
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["few.csv", "more.csv"]


def test_formulas_are_escaped_in_one_table_and_in_several(predictor: molattn.Predictor, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("smiles,note\nCCO,=1+1\n")
    predictor.predict_table(tmp_path / "in.csv", tmp_path / "one.csv", escape_formulas=True)
    predictor.predict_tables([tmp_path / "in.csv"], tmp_path / "out", escape_formulas=True)
    assert "CCO,'=1+1," in (tmp_path / "one.csv").read_text()
    assert (tmp_path / "out" / "in.csv").read_bytes() == (tmp_path / "one.csv").read_bytes()


def test_a_model_that_was_never_saved_predicts_tables(
    predictor: molattn.Predictor, run: Path, few: Path, tmp_path: Path
) -> None:
    unsaved = molattn.Predictor(load_artifact(run / "model"))
    assert unsaved.folder is None
    for name, each in (("a", predictor), ("b", unsaved)):
        with pytest.warns(MolattnWarning):
            each.predict_table(few, tmp_path / f"{name}.csv")
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    assert unsaved.config_sha256() == unsaved.config_sha256()
    with pytest.raises(UsageError, match="needs a model in a folder"):
        unsaved.predict_table(few, tmp_path / "d.csv", engine="ray")


def test_a_column_of_the_table_is_not_overwritten(predictor: molattn.Predictor, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("smiles,status\nCCO,new\n")
    with pytest.warns(MolattnWarning, match="the table has a column 'status'; the new one is 'status_2'"):
        predictor.predict_table(tmp_path / "in.csv", tmp_path / "out.csv")
    (row,) = rows_of(tmp_path / "out.csv")
    assert (row["status"], row["status_2"]) == ("new", "ok")


@pytest.mark.parametrize("name", ["out.csv", "out.parquet", "out.npy"])
def test_embeddings_are_those_of_embed(
    monkeypatch: pytest.MonkeyPatch, predictor: molattn.Predictor, run: Path, few: Path, tmp_path: Path, name: str
) -> None:
    with pytest.warns(MolattnWarning, match="1 of 3 rows have no embedding; the first, line 3"):
        counts = predictor.embed_table(few, tmp_path / name)
    assert (counts.rows, counts.failed) == (3, 1)
    command(monkeypatch, "embed", run, few, "-o", tmp_path / f"command-{name}")
    assert (tmp_path / f"command-{name}").read_bytes() == (tmp_path / name).read_bytes()
    if name == "out.npy":
        with pytest.warns(MolattnWarning):
            expected = predictor.embed(["CCO", "C1CC", "c1ccccc1"])
        np.testing.assert_allclose(np.load(tmp_path / name), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("layer", "head"), [(None, None), (-1, "mean"), (0, 3)])
def test_attention_weights_are_those_of_the_command(
    monkeypatch: pytest.MonkeyPatch,
    predictor: molattn.Predictor,
    run: Path,
    few: Path,
    tmp_path: Path,
    layer: int | None,
    head: int | str | None,
) -> None:
    out = tmp_path / "out.parquet"
    with pytest.warns(MolattnWarning, match="1 of 3 rows have no weights; the first, line 3"):
        counts = predictor.attention_table(few, out, layer=layer, head=head)
    heads = (2 if layer is None else 1) * (4 if head is None else 1)
    assert isinstance(counts, AttentionCounts)
    assert (counts.rows, counts.failed, counts.weights) == (3, 1, heads * (3**2 + 6**2))
    assert sorted(set(pq.read_table(out)["row"].to_pylist())) == [0, 2]
    options = [*([] if layer is None else [f"--layer={layer}"]), *([] if head is None else [f"--head={head}"])]
    command(monkeypatch, "attention", run, few, "-o", tmp_path / "command.parquet", *options)
    assert (tmp_path / "command.parquet").read_bytes() == out.read_bytes()


def test_a_head_may_have_blanks_around_it(predictor: molattn.Predictor, few: Path, tmp_path: Path) -> None:
    for name, head in (("plain", "mean"), ("blanks", " mean ")):
        with pytest.warns(MolattnWarning):
            predictor.attention_table(few, tmp_path / f"{name}.parquet", layer=0, head=head)
    assert (tmp_path / "blanks.parquet").read_bytes() == (tmp_path / "plain.parquet").read_bytes()


def test_heads_are_summarized_over_a_table(predictor: molattn.Predictor, few: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    with pytest.warns(MolattnWarning, match="1 of 3 rows are left out; the first, line 3: 'C1CC'"):
        summary = predictor.summarize_heads(few, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)] and summary.num_molecules == 2
    assert summary.to_frame().equals(summarize_heads(predictor.attentions(["CCO", "c1ccccc1"])).to_frame())
    assert predictor.summarize_heads(few, max_rows=1).num_molecules == 1
    with pytest.raises(RowsFailed, match="line 3: 'C1CC'"):
        predictor.summarize_heads(few, strict=True)
    with pytest.raises(UsageError, match="has no column 'x'"):
        predictor.summarize_heads(few, smiles_column="x")
    for name, start in (("h.csv", b'"layer"'), ("h.tsv", b'"layer"\t'), ("h.parquet", b"PAR1"), ("h.svg", b"<?xml")):
        summary.save(tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(start)
    with pytest.raises(UsageError, match=r"h\.txt: name it \.csv"):
        summary.save(tmp_path / "h.txt")
