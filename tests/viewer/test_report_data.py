"""The data of a report, compared with pandas, RDKit and NumPy."""

import json
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rdkit import Chem, DataStructs
from rdkit.Chem import rdFingerprintGenerator
from rdkit.Chem.Scaffolds import MurckoScaffold

from molattn.errors import InputError, MolattnWarning, UsageError
from molattn.viewer.report import run_sections
from molattn.viewer.report.comparison import align, comparison_payload, paired_interval
from molattn.viewer.report.errors_by_molecule import (
    MIN_SIMILARITY,
    activity_cliffs,
    errors_by_similarity,
    scaffold_errors,
    similar_pairs,
    training_similarity,
    worst_errors,
)
from molattn.viewer.report.model_parts import ModelParts
from molattn.viewer.report.names import guess_names_column, names_of_run
from molattn.viewer.report.payload import report_payload
from molattn.viewer.report.run_files import RunFiles, read_run
from molattn.viewer.report.run_sections import metrics
from molattn.viewer.report.structures import NO_RINGS, Glyphs, canonical, compact_drawing, scaffolds
from tests.molecules import SPECIAL, esol
from tests.viewer.run_folders import write_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a hundred molecules, some of them without a label."""
    smiles, true = esol(100)
    rng = np.random.default_rng(0)
    predicted = np.array(true) + rng.normal(0, 0.5, 100)
    labels = [None if i % 17 == 3 else y for i, y in enumerate(true)]
    columns = {"logS": labels, "logS_pred": predicted.tolist(), "logS_std": [0.5] * 100}
    return write_run(tmp_path_factory.mktemp("runs") / "run", smiles, columns, units={"logS": "mol/L"})


@pytest.fixture(scope="module")
def run(folder: Path) -> RunFiles:
    return read_run(folder)


@pytest.fixture(scope="module")
def frame(folder: Path) -> pd.DataFrame:
    found = pd.read_csv(folder / "predictions.csv")
    found["error"] = found["logS_pred"] - found["logS"]
    return found


def test_a_run_is_what_pandas_reads(run: RunFiles, frame: pd.DataFrame) -> None:
    (target,) = run.targets
    assert (run.smiles, run.splits, run.rows.tolist()) == (list(frame.smiles), list(frame.split), list(frame.row))
    np.testing.assert_array_equal(target.true, frame.logS)
    np.testing.assert_array_equal(target.predicted, frame.logS_pred)
    np.testing.assert_array_equal(target.error, frame.error)
    assert target.std is not None and set(target.std) == {0.5}
    assert (target.unit, target.kind) == ("mol/L", "regression")
    assert run.history["best"] == [1.0, 0.0]


def test_the_worst_errors_are_those_that_pandas_sorts_first(run: RunFiles, frame: pd.DataFrame) -> None:
    test = np.flatnonzero(frame.split == "test")
    expected = frame.iloc[test].error.abs().sort_values(ascending=False).dropna().index[:7]
    assert worst_errors(run.targets[0], test, 7).tolist() == list(expected)


def test_errors_by_scaffold_are_those_of_a_group_by(run: RunFiles, frame: pd.DataFrame) -> None:
    def murcko(smiles: str) -> str:
        mol = Chem.MolFromSmiles(smiles)
        Chem.RemoveStereochemistry(mol)
        return Chem.MolToSmiles(MurckoScaffold.GetScaffoldForMol(mol)) or NO_RINGS

    frame = frame.assign(scaffold=frame.smiles.map(murcko)).dropna(subset=["error"])
    groups = frame.groupby("scaffold").error
    found = scaffold_errors(run.targets[0], scaffolds(run.smiles), np.arange(100))
    assert {s.scaffold: s.molecules for s in found} == groups.size().to_dict()
    for s in found:
        errors = groups.get_group(s.scaffold)
        assert s.mae == pytest.approx(errors.abs().mean())
        assert s.bias == pytest.approx(errors.mean())
        assert abs(frame.error[s.worst]) == errors.abs().max()
    assert [s.molecules for s in found] == sorted((s.molecules for s in found), reverse=True)


def test_similar_pairs_are_those_of_all_pairs(run: RunFiles) -> None:
    smiles = [*run.smiles[:40], "CCCCCCO", "CCCCCCCO", "OCCCCCC", "Cc1ccccc1Cl", "Cc1ccccc1Br"]
    of, unique = scaffolds(smiles), canonical(smiles)
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    bits = [generator.GetCountFingerprint(Chem.MolFromSmiles(s)) for s in smiles]
    near = {
        (i, j)
        for i in range(len(smiles))
        for j in range(i + 1, len(smiles))
        if DataStructs.TanimotoSimilarity(bits[i], bits[j]) >= MIN_SIMILARITY and unique[i] != unique[j]
    }
    pairs = similar_pairs(smiles, of, unique)
    assert {p[:2] for p in pairs if p.similarity >= MIN_SIMILARITY} == near
    rest = [p for p in pairs if p.similarity < MIN_SIMILARITY]
    assert rest and all(p.change and of[p.first] == of[p.second] for p in rest)
    assert (43, 44) in {p[:2] for p in rest}
    for p in pairs:
        assert p.similarity == pytest.approx(DataStructs.TanimotoSimilarity(bits[p.first], bits[p.second]))


def test_cliffs_are_the_pairs_with_the_largest_differences(run: RunFiles) -> None:
    (target,) = run.targets
    pairs = similar_pairs(run.smiles, scaffolds(run.smiles), canonical(run.smiles))
    found, count, limit = activity_cliffs(target, pairs, count=5)
    assert limit == pytest.approx(np.nanstd(target.true))
    differences = [abs(target.true[p.first] - target.true[p.second]) for p in pairs]
    differences = sorted((d for d in differences if d >= limit), reverse=True)
    assert count == len(differences)
    assert [abs(target.true[p.first] - target.true[p.second]) for p in found] == differences[:5]


def test_a_probability_of_one_is_a_number_and_a_label_is_a_class(tmp_path: Path) -> None:
    columns = {"y": [0, 1], "y_pred": [1.0, 0.25]}
    task = {"kind": "binary", "classes": [["inactive", "active"]]}
    run = read_run(write_run(tmp_path / "run", ["Cc1ccccc1Cl", "Cc1ccccc1Br"], columns, ["test", "test"], task=task))
    (cliffs,) = [s for s in report_payload(run)["sections"] if s["id"] == "cliffs"]
    (row,) = cliffs["blocks"][1]["rows"]
    assert row[4:6] == ["inactive \u2192 active", "1 \u2192 0.25"]


def test_similarity_to_the_training_is_the_largest_of_rdkit(run: RunFiles, frame: pd.DataFrame) -> None:
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    bits = [generator.GetFingerprint(Chem.MolFromSmiles(s)) for s in run.smiles]
    train = [b for b, split in zip(bits, run.splits, strict=True) if split == "train"]
    found = training_similarity(run.smiles, run.splits)
    for b, split, value in zip(bits, run.splits, found, strict=True):
        if split == "train":
            assert np.isnan(value)
        else:
            assert value == pytest.approx(max(DataStructs.BulkTanimotoSimilarity(b, train)), abs=1e-6)
    test = np.flatnonzero(frame.split == "test")
    binned = errors_by_similarity(run.targets[0], found, test)
    assert sum(count for _, _, count, _ in binned) == frame.iloc[test].error.notna().sum()
    total = sum(count * mae for _, _, count, mae in binned)
    assert total == pytest.approx(frame.iloc[test].error.abs().sum())


def test_classes_have_probabilities_of_the_true_one(tmp_path: Path) -> None:
    smiles = ["C", "CC", "CCC"]
    binary = {"y": [0.0, 1.0, None], "y_pred": [0.25, 0.75, 0.5]}
    (target,) = read_run(write_run(tmp_path / "binary", smiles, binary, task={"kind": "binary"})).targets
    np.testing.assert_allclose(target.error, [0.25, 0.25, np.nan])
    assert target.classes == ("0", "1")
    columns = {
        "y": ["low", "high", None],
        "y_pred": ["low", "low", "high"],
        "y_prob_low": [0.75, 0.625, 0.25],
        "y_prob_high": [0.25, 0.375, 0.75],
    }
    task = {"kind": "multiclass", "classes": [["low", "high"]]}
    (target,) = read_run(write_run(tmp_path / "multi", smiles, columns, task=task)).targets
    np.testing.assert_allclose(target.true, [0, 1, np.nan])
    np.testing.assert_allclose(target.predicted, [0, 0, 1])
    np.testing.assert_allclose(target.error, [0.25, 0.625, np.nan])


def test_drawings_share_the_outlines_of_their_letters() -> None:
    glyphs = Glyphs()
    smiles = [*SPECIAL, *esol(60)[0]]
    drawings = [compact_drawing(text, glyphs, with_atoms=True) for text in smiles]
    letters = [letter for drawing in drawings for letter in drawing.get("letters", ())]
    assert len(letters) > 5 * len(glyphs.paths)
    for text, drawing in zip(smiles, drawings, strict=True):
        assert len(drawing["atoms"]) == Chem.MolFromSmiles(text).GetNumAtoms() if "H][H" not in text else True
        width, height = drawing["size"]
        assert all(-1 <= x <= width + 1 and -1 <= y <= height + 1 for _, x, y, *_ in drawing.get("letters", ()))
    assert len(json.dumps(drawings)) < 900 * len(drawings)


def test_letters_have_the_symbol_of_an_element_with_a_color() -> None:
    """In OH the hydrogen has that of oxygen; labels of carbon, isotopes and metals have none."""

    def symbols(smiles: str) -> list[str]:
        return sorted("".join(letter[3:]) for letter in compact_drawing(smiles, Glyphs()).get("letters", ()))

    assert symbols("NC(=O)CCl") == ["Cl", "Cl", "N", "N", "N", "O"]  # H2N has three letters, Cl two
    assert symbols("CCO") == ["O", "O"]
    assert symbols("[13CH4]")[0] == symbols("[Na+].[Cl-]")[0] == ""
    assert symbols("CC") == []


def test_commands_quote_a_folder_with_spaces(run: RunFiles) -> None:
    moved = replace(run, folder=Path("my runs") / "esol", config={"data": {}}, faithfulness={})
    sections = [
        *run_sections.heads(moved, ModelParts()),
        *run_sections.faithfulness(moved),
        *run_sections.settings(moved),
    ]
    commands = [block["command"] for section in sections for block in section["blocks"] if block.get("command")]
    assert {tuple(shlex.split(command)) for command in commands} == {
        ("molattn", "heads", "my runs/esol"),
        ("molattn", "faithfulness", "my runs/esol"),
        ("molattn", "train", "--config", "my runs/esol/config.toml"),
    }


def test_missing_measurements_are_listed_with_their_command(run: RunFiles, folder: Path) -> None:
    content = report_payload(run)
    blocks = [block for section in content["sections"] for block in section["blocks"] if block["kind"] == "missing"]
    commands = [block["command"] for block in blocks]
    assert f"molattn faithfulness {folder}" in commands
    assert f"molattn heads {folder}" in commands
    assert "molattn check TABLE" in commands


def test_an_r2_of_the_baseline_that_is_nearly_zero_is_zero(folder: Path) -> None:
    run = read_run(folder)
    names = ("rmse", "r2")
    target = run.targets[0].name
    run.metrics["baseline"] = {"test": {target: {"rmse": 1.5e-7, "r2": -1.53e-7}}}
    run.metrics["test"][target] = dict.fromkeys(names, 0.5)
    section = next(iter(metrics(run)))
    (rows,) = (block["rows"] for block in section["blocks"] if "rows" in block)
    assert [row[-1] for row in rows[:2]] == [1.5e-7, 0.0]


def test_sections_are_those_of_the_run(run: RunFiles) -> None:
    content = report_payload(run, smarts={"chloride": "[#6]Cl"})
    titles = [section["id"] for section in content["sections"]]
    expected = ["metrics", "worst", "cliffs", "scaffolds", "leakage", "learning"]
    assert titles == [*expected, "heads", "faithfulness", "curation", "settings"]
    assert content["groups"][0] == "chloride"
    query = Chem.MolFromSmarts("[#6]Cl")
    has = [0 in groups for groups in content["has"]]
    assert has == [Chem.MolFromSmiles(s).HasSubstructMatch(query) for s in run.smiles]
    json.dumps(content, allow_nan=False)


def test_leakage_names_molecules_in_two_subsets(tmp_path: Path) -> None:
    columns = {"y": [1.0, 2.0, 3.0], "y_pred": [1.0, 2.0, 3.0]}
    run = read_run(write_run(tmp_path / "run", ["CCO", "OCC", "CCN"], columns, splits=["train", "test", "test"]))
    (leak,) = [s for s in report_payload(run)["sections"] if s["id"] == "leakage"]
    assert leak["blocks"][0]["text"].startswith("1 molecule is in more than one subset of the split")


def test_names_are_found_by_row_or_by_smiles(tmp_path: Path) -> None:
    columns = {"y": [1.0, 2.0], "y_pred": [1.0, 2.0]}
    run = read_run(write_run(tmp_path / "run", ["CCO", "CCN"], columns, rows=[0, 2], smiles_column="smiles"))
    table = tmp_path / "names.csv"
    table.write_text("Compound ID,smiles\na,CCO\nb,CC\nc,CCN\n")
    assert names_of_run(run, table) == ["a", "c"]
    table.write_text("other,smiles\nz,C\nc,CCN\n")
    assert names_of_run(run, table, names_column="other") == ["", "c"]
    with pytest.raises(UsageError, match=r"no column of .*names.csv has a usual name .*: give one with --names-column"):
        names_of_run(run, table)
    table.write_text("name,smiles\nz,C\n")
    with pytest.raises(UsageError, match="has none of the molecules of the run, such as 'CCO'"):
        names_of_run(run, table)
    assert names_of_run(run) == []
    with pytest.raises(UsageError, match="give it with --data"):
        names_of_run(run, names_column="name")
    assert guess_names_column(["SMILES", "y"]) == ""


def test_folders_that_are_no_runs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no run"):
        read_run(tmp_path / "absent")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="has no predictions.csv"):
        read_run(tmp_path / "empty")
    several = tmp_path / "several"
    for fold in range(2):
        (several / f"fold_{fold}" / "model").mkdir(parents=True)
    for name in ("config.toml", "metrics.json"):
        (several / name).touch()
    with pytest.raises(InputError, match=r"several holds 2 runs with a model each: give one of them, such as .*fold_0"):
        read_run(several)
    folder = write_run(tmp_path / "run", ["C"], {"y": ["one"], "y_pred": [1.0]})
    with pytest.raises(InputError, match="line 2: 'one' in column 'y' is not a number"):
        read_run(folder)
    folder = write_run(tmp_path / "rows", ["C", "CC"], {"y": [1.0, 2.0], "y_pred": [1.0, 2.0]})
    table = folder / "predictions.csv"
    table.write_text(table.read_text().replace("\n1,", "\none,"))
    with pytest.raises(InputError, match="line 3: 'one' in column 'row' is not a row number"):
        read_run(folder)
    folder = write_run(tmp_path / "atoms", ["C"], {"y": ["[1]"], "y_pred": ["[1]"]}, task={"atom_level": True})
    with pytest.raises(UsageError, match="targets of atoms"):
        read_run(folder)
    folder = write_run(tmp_path / "damaged", ["C"], {"y": [1.0], "y_pred": [1.0]})
    (folder / "metrics.json").write_text("{")
    with pytest.warns(MolattnWarning, match=r"metrics\.json is damaged and left out"):
        assert read_run(folder).metrics == {}


def test_two_runs_are_aligned_by_row_or_by_molecule(tmp_path: Path) -> None:
    a = read_run(write_run(tmp_path / "a", ["CCO", "CC", "CCN"], {"y": [1.0, 2.0, 3.0], "y_pred": [1.0, 1.0, 1.0]}))
    b = write_run(tmp_path / "b", ["CCN", "CC"], {"y": [3.0, 2.0], "y_pred": [5.0, 6.0]}, rows=[2, 1])
    first, second = align(a, read_run(b))
    assert first.smiles == second.smiles == ["CC", "CCN"]
    assert second.targets[0].predicted.tolist() == [6.0, 5.0]
    c = read_run(write_run(tmp_path / "c", ["NCC", "OCC"], {"y": [3.0, 1.0], "y_pred": [7.0, 8.0]}))
    first, second = align(a, c)
    assert (first.smiles, second.smiles) == (["CCO", "CCN"], ["OCC", "NCC"])
    with pytest.raises(InputError, match="no target in common"):
        align(a, read_run(write_run(tmp_path / "d", ["CCO"], {"z": [3.0], "z_pred": [5.0]})))
    with pytest.raises(InputError, match="no molecule in common"):
        align(a, read_run(write_run(tmp_path / "e", ["CCCl"], {"y": [3.0], "y_pred": [5.0]})))


def test_a_comparison_has_the_errors_and_settings_of_both(tmp_path: Path) -> None:
    smiles, true = esol(20)
    columns = {"y": true, "y_pred": [y + 0.1 for y in true]}
    a = read_run(write_run(tmp_path / "a", smiles, columns))
    b = read_run(write_run(tmp_path / "b", smiles, {**columns, "y_pred": [y - 0.4 for y in true]}, duplicates="mean"))
    content = comparison_payload(*align(a, b))
    assert content["runs"] == ["a", "b"]
    (target,) = content["targets"]
    np.testing.assert_allclose(target["error"], 0.1, atol=1e-5)
    np.testing.assert_allclose(target["second"]["error"], -0.4, atol=1e-5)
    sections = {section["id"]: section["blocks"] for section in content["sections"]}
    (settings,) = sections["settings"]
    assert settings["rows"] == [["data.duplicates", "", '"mean"']]
    assert "mean absolute error is 0.1 in a and 0.4 in b" in sections["paired"][0]["text"]
    assert "smaller error on 0% of them" in sections["paired"][0]["text"]
    assert sections["splits"][0]["text"].endswith("split in the same way.")


LEARNED_LOG10 = {"units": {"IC50 [uM]": "uM"}, "transforms": {"IC50 [uM]": {"name": "log10"}}}
LABELS = [1.0, 10.0, 100.0, None, 0.01]
CONCENTRATIONS = {
    "IC50 [uM]": LABELS,
    "IC50 [uM]_pred": [10.0, 10.0, 1e6, 1.0, 0.1],
    "IC50 [uM]_std": [2.0, 2.0, 2.0, 2.0, 2.0],
    "IC50 [uM]_bound": ["", "", "", ">1000.0", ""],
}
MOLECULES = ["CCO", "CCN", "CCC", "CCF", "CCCl"]


def test_a_target_that_was_learned_as_logarithms_is_shown_as_logarithms(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "run", MOLECULES, CONCENTRATIONS, ["test"] * 5, **LEARNED_LOG10))
    (target,) = run.targets
    assert (target.name, target.title, target.unit) == ("IC50 [uM]", "IC50", "log10(uM)")
    np.testing.assert_allclose(target.true, [0, 1, 2, np.nan, -2], atol=1e-12)
    np.testing.assert_allclose(target.error, [1, 0, 4, np.nan, 1], atol=1e-12)
    assert target.bounds[3] == ">3.0"
    # To first order, the standard deviation of log10 y is that of y, divided by y log 10.
    np.testing.assert_allclose(target.std, 2 / np.log(10) / np.array(CONCENTRATIONS["IC50 [uM]_pred"]))
    assert worst_errors(target, np.arange(5), 1).tolist() == [2]
    data = report_payload(run)
    (shown,) = data["targets"]
    assert (shown["name"], shown["unit"], shown["true"][:3]) == ("IC50", "log10(uM)", [0, 1, 2])
    assert shown["original"]["true"] == LABELS and shown["original"]["unit"] == "uM"
    assert shown["original"]["bounds"][3] == ">1000.0"
    sections = {section["id"]: section["blocks"] for section in data["sections"]}
    rows = {row[0]: row[1:4] for row in sections["metrics"][0]["rows"]}
    assert rows["RMSE"] == [0.5] * 3 and rows["RMSE, log10(uM)"] == [0.25] * 3
    assert "RMSE and MAE are in uM. The model learned log10(uM)" in sections["metrics"][1]["text"]
    assert sections["worst"][0]["text"] == "The 4 test molecules with the largest absolute errors, in log10(uM)."
    assert "the standard deviation, in log10(uM)" in sections["cliffs"][0]["text"]
    assert run.select(np.array([2])).targets[0].original.true.tolist() == [100.0]


def test_intervals_and_bounds_change_sides_where_the_logarithm_is_negative(tmp_path: Path) -> None:
    learned = {**LEARNED_LOG10, "transforms": {"IC50 [uM]": {"name": "neg-log10-molar", "unit": "uM"}}}
    (target,) = read_run(write_run(tmp_path / "run", MOLECULES, CONCENTRATIONS, **learned)).targets
    assert target.unit == "-log10(mol/L)" and target.bounds[3] == "<3.0"
    assert target.true[0] == pytest.approx(6)
    np.testing.assert_allclose(target.transformed_ends(np.array([[1.0, 10.0]])), [[5, 6]])


def test_ranks_and_unknown_transforms_are_shown_in_the_unit_of_the_table(tmp_path: Path) -> None:
    for k, settings in enumerate(({"name": "rank", "values": [0.0, 1.0], "scores": [-1.0, 1.0]}, {"name": "cube"})):
        learned = {**LEARNED_LOG10, "transforms": {"IC50 [uM]": settings}}
        (target,) = read_run(write_run(tmp_path / str(k), MOLECULES, CONCENTRATIONS, **learned)).targets
        assert (target.unit, target.in_unit, target.original, target.true[2]) == ("uM", "", None, 100.0)


def test_two_runs_are_compared_in_the_unit_that_the_first_one_learned(tmp_path: Path) -> None:
    logarithms = read_run(write_run(tmp_path / "a", MOLECULES, CONCENTRATIONS, ["test"] * 5, **LEARNED_LOG10))
    columns = {**CONCENTRATIONS, "IC50 [uM]_pred": [-1.0, 10.0, 100.0, 1.0, 1.0]}
    numbers = read_run(write_run(tmp_path / "b", MOLECULES, columns, ["test"] * 5, units={"IC50 [uM]": "uM"}))
    (target,) = comparison_payload(*align(logarithms, numbers))["targets"]
    assert target["error"] == [1, 0, 4, None, 1]
    assert target["second"]["error"] == [None, 0, 0, None, 2]  # -1 has no logarithm
    assert target["second"]["original"] == [-1, 10, 100, 1, 1]
    (target,) = comparison_payload(*align(numbers, logarithms))["targets"]
    assert target["second"]["error"][2] == 1e6 - 100 and target["original"] is None


def test_the_paired_interval_covers_the_mean() -> None:
    rng = np.random.default_rng(5)
    inside = 0
    for seed in range(40):
        low, high = paired_interval(rng.normal(0.3, 1, 100), seed)
        inside += low <= 0.3 <= high
    assert 33 <= inside <= 40
    assert paired_interval(np.full(9, 0.25)) == (0.25, 0.25)
