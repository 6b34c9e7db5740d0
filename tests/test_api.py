"""`molattn.train` and `molattn.load`: the Python interface."""

import inspect
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rdkit import Chem

import molattn
from molattn._train import PrintReporter
from molattn.chem import ConformerOptions, ReadOptions, molecule
from molattn.errors import ConformerError, InputError, MolattnWarning, SmilesError, UsageError
from molattn.inference import Predictor
from molattn.models.artifact_file import load_artifact
from tests.assertions import assert_same_predictions
from tests.molecules import esol

SMALL = ["model.num_layers=2", "model.hidden_dim=16", "model.num_heads=4"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("api")
    rows = [f"{s},{y}" for s, y in zip(*esol(40), strict=True)]
    (root / "t.csv").write_text("\n".join(["smiles,y", *rows]) + "\n")
    result = molattn.train(
        root / "t.csv", output_dir=root / "run", settings=SMALL, epochs=2, accelerator="cpu", quiet=True
    )
    assert result.folder == root / "run"
    assert result.metrics["test"]["y"]["n"] == 4
    return result.folder


def test_predictions_are_in_order_and_in_units(folder: Path) -> None:
    predictor = molattn.load(folder)
    smiles, values = esol(40)
    predicted = predictor.predict(smiles)
    assert predicted.shape == (40,)
    assert predicted.dtype == np.float64
    assert_same_predictions(predictor.predict(smiles[::-1]), predicted[::-1])
    assert abs(predicted.mean() - np.mean(values)) < 3
    assert predictor.targets == ("y",)


def test_a_single_smiles_has_a_single_prediction(folder: Path) -> None:
    predictor = molattn.load(folder)
    assert predictor.predict("CCO") == predictor.predict(["CCO"])[0]
    assert predictor.predict([]).shape == (0,)


def test_bad_rows_are_nan_with_a_warning(folder: Path) -> None:
    predictor = molattn.load(folder)
    with pytest.warns(MolattnWarning, match=r"2 of 4 SMILES have no prediction \(NaN\); the first, row 1, 'C1CC'"):
        values = predictor.predict(["CCO", "C1CC", None, "CC"])
    assert np.isnan(values).tolist() == [False, True, True, False]
    rows = list(predictor.predict_rows(["CCO", "C1CC", None, "CC"]))
    assert [r.values is None for r in rows] == [bool(r.error) for r in rows] == [False, True, True, False]


def test_bad_rows_raise_on_request(folder: Path) -> None:
    predictor = molattn.load(folder)
    with pytest.raises(InputError, match=r"2 of 4 SMILES cannot be used.*row 1, 'C1CC': .*; row 2, None: "):
        predictor.predict(["CCO", "C1CC", None, "CC"], on_error="raise")
    with pytest.raises(InputError, match=r"7 of 7 .*row 4, '': it is empty; and 2 more$"):
        predictor.predict([""] * 7, on_error="raise")
    assert np.isfinite(predictor.predict(["CCO"], on_error="raise")).all()


@pytest.mark.parametrize("method", ["predict", "embed"])
def test_an_unknown_on_error_is_refused_before_any_molecule_is_read(folder: Path, method: str) -> None:
    def never() -> Iterator[str]:
        raise AssertionError("a molecule was read")
        yield "C"

    with pytest.raises(UsageError, match="unknown on_error 'riase': choose one of nan, raise; did you mean 'raise'"):
        # Without the tests' own checks of argument types, which users do not have.
        inspect.unwrap(getattr(Predictor, method))(molattn.load(folder), never(), on_error="riase")


def test_a_saved_model_predicts_the_same(folder: Path, tmp_path: Path) -> None:
    predictor = molattn.load(folder)
    predictor.save(tmp_path / "copy")
    np.testing.assert_array_equal(
        molattn.load(tmp_path / "copy").predict(["CCO", "C"]), predictor.predict(["CCO", "C"])
    )


def test_attention_has_a_weight_for_every_layer_head_and_pair(folder: Path) -> None:
    predictor = molattn.load(folder)
    attention = predictor.attention("CC(=O)Oc1ccccc1C(=O)O")
    assert attention.weights.shape == (2, 4, 13, 13)
    np.testing.assert_allclose(attention.weights.sum(-1), 1, atol=1e-6)
    assert attention.symbols == tuple("CCOOCCCCCCCOO")
    assert attention.prediction["y"] == pytest.approx(predictor.predict("CC(=O)Oc1ccccc1C(=O)O"), abs=1e-6)
    assert predictor.attention("C").weights.tolist() == np.ones((2, 4, 1, 1)).tolist()


def test_attention_is_in_the_order_of_the_smiles(folder: Path) -> None:
    predictor = molattn.load(folder)
    a, b = predictor.attention("CCO"), predictor.attention("OCC")
    np.testing.assert_allclose(a.weights, b.weights[:, :, ::-1, ::-1], atol=1e-6)


def test_attention_of_no_molecule_is_an_error(folder: Path) -> None:
    with pytest.raises(SmilesError, match="C1CC"):
        molattn.load(folder).attention("C1CC")


@pytest.fixture(scope="module")
def folder_3d(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("api-3d")
    rows = [f"{s},{y}" for s, y in zip(*esol(20), strict=True)]
    (root / "t.csv").write_text("\n".join(["smiles,y", *rows]) + "\n")
    options = {"epochs": 1, "accelerator": "cpu", "quiet": True, "conformers": True, "conformer_seed": 5}
    options["edges"] = ["bond", "path", "distance"]
    molattn.train(root / "t.csv", output_dir=root / "run", settings=SMALL, **options)
    return root / "run"


def test_a_frame_of_rdkit_molecules_trains_as_their_smiles(tmp_path: Path) -> None:
    smiles, y = esol(20)
    found = []
    for name, column in (("text", smiles), ("mols", [Chem.MolFromSmiles(s) for s in smiles])):
        frame = pd.DataFrame({"smiles": column, "y": y})
        result = molattn.train(frame, output_dir=tmp_path / name, settings=SMALL, epochs=1, quiet=True)
        found.append(result.predictions.values)
    np.testing.assert_allclose(*found, atol=1e-5)
    # Hydrogens before the other atoms: no SMILES has this order.
    with_hydrogens = Chem.AddHs(Chem.MolFromSmiles(smiles[0]))
    reversed_order = Chem.RenumberAtoms(with_hydrogens, [*reversed(range(with_hydrogens.GetNumAtoms()))])
    frame = frame.assign(smiles=[reversed_order, *frame["smiles"][1:]])
    with pytest.warns(MolattnWarning, match="whose atoms are in another order"):
        molattn.train(frame, output_dir=tmp_path / "order", settings=SMALL, epochs=1, quiet=True)


def test_a_model_of_3d_embeds_as_it_was_trained(folder_3d: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    predictor = molattn.load(folder_3d)
    assert predictor.read_options.conformers == ConformerOptions(seed=5)
    settings_used = []
    real = molecule.distances

    def distances(mol: object, smiles: object, paths: np.ndarray, settings: ConformerOptions) -> tuple:
        settings_used.append(settings)
        return real(mol, smiles, paths, settings)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(molecule, "distances", distances)
    one, _ = predictor.predict(["CCO", "CC"])
    assert predictor.attention("CCO").prediction["y"] == pytest.approx(one, abs=1e-6)
    assert settings_used == [ConformerOptions(seed=5)] * 3


def test_predictions_from_path_lengths_are_warned_of(folder_3d: Path) -> None:
    predictor = molattn.load(folder_3d)
    with pytest.warns(MolattnWarning, match="1 of 2 SMILES have no 3D geometry; the first, row 1, 'C1#CC1'"):
        assert np.isfinite(predictor.predict(["CCO", "C1#CC1"])).all()
    with pytest.warns(MolattnWarning, match="'C1#CC1': distances are path lengths"):
        predictor.attention("C1#CC1")


def test_a_conformer_failure_that_stops_training_is_a_bad_row_in_prediction(folder_3d: Path) -> None:
    artifact = load_artifact(folder_3d / "model")
    predictor = Predictor(replace(artifact, read_options=ReadOptions(conformers=ConformerOptions(on_failure="stop"))))
    counts: list[int] = []
    first, second = predictor.predict_rows(["C1#CC1", "CCO"], progress=counts.append)
    assert "RDKit finds no 3D geometry" in first.error
    assert second.values is not None
    assert counts == [1, 2]
    with pytest.raises(ConformerError):
        predictor.attention("C1#CC1")


def test_an_option_that_does_not_exist_is_explained() -> None:
    with pytest.raises(UsageError, match="did you mean 'epochs'"):
        molattn.train("esol", epoch=3)


def test_warnings_of_a_run_are_warnings(tmp_path: Path) -> None:
    rows = [f"{s},{y}" for s, y in zip(*esol(20), strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["smiles,y", *rows, "C1CC,1"]) + "\n")
    options = {"epochs": 1, "accelerator": "cpu", "quiet": True}
    with pytest.warns(MolattnWarning, match="1 row is left out"):
        molattn.train(tmp_path / "t.csv", output_dir=tmp_path / "run", settings=SMALL, **options)


def test_a_warning_points_at_the_first_line_outside_of_molattn() -> None:
    file = f"{Path(molattn.__file__).parent}/made.py"
    names: dict = {"__name__": "molattn.made"}
    exec(compile("def warn(reporter): reporter.warning('careful')", file, "exec"), names)
    with pytest.warns(MolattnWarning, match="careful") as warned:
        names["warn"](PrintReporter())
    assert warned[0].filename == __file__
