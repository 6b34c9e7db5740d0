"""Models on disk: what is saved is loaded, and damaged files are errors."""

import hashlib
import json
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from molattn.chem import ConformerOptions, ReadOptions, molecule_graph
from molattn.data.schema import dumps_checksummed
from molattn.errors import InputError
from molattn.models import artifact_file
from molattn.models.applicability_domain import ApplicabilityDomain
from molattn.models.artifact import Artifact
from molattn.models.artifact_file import load_artifact, save_artifact
from molattn.models.calibration import Calibration
from molattn.models.config import GraphModelConfig
from molattn.models.config_schema import SCHEMA
from molattn.models.graph_model import GraphModel
from molattn.models.predictions import Predictions
from molattn.models.scaler import DescriptorScaler, TargetScaler
from molattn.models.task import Task
from molattn.models.tasks import Binary, Multiclass, Regression
from tests.molecules import SPECIAL
from tests.predictions import predict_molecules

SMALL = GraphModelConfig(hidden_dim=16, num_heads=4, num_layers=1)


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    """A small model; its predictions do not matter here."""
    torch.manual_seed(0)
    model = GraphModel(SMALL).eval().requires_grad_(False)
    return Artifact(model, TargetScaler((-3.0,), (2.0,)), ("log_solubility",), ("log10(mol/L)",))


@pytest.fixture
def folder(artifact: Artifact, tmp_path: Path) -> Path:
    save_artifact(tmp_path / "model", artifact)
    return tmp_path / "model"


def _change(folder: Path, **fields: object) -> None:
    """Changes as of another version of molattn."""
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_bytes(dumps_checksummed({**config, **fields}, "config.json"))


def test_save_and_load_are_bitwise_exact(artifact: Artifact, folder: Path) -> None:
    loaded = load_artifact(folder)
    graphs = [molecule_graph(s) for s in SPECIAL]
    before = predict_molecules(artifact.model, artifact.scaler, graphs)
    assert np.array_equal(before, predict_molecules(loaded.model, loaded.scaler, graphs))
    assert not loaded.model.training
    assert (loaded.targets, loaded.units, loaded.scaler) == (artifact.targets, artifact.units, artifact.scaler)
    assert {p.name for p in folder.iterdir()} == {"model.safetensors", "config.json"}


def test_every_flipped_byte_of_the_weights_is_an_error(folder: Path) -> None:
    path = folder / "model.safetensors"
    whole = path.read_bytes()
    refused = 0
    for place in range(0, len(whole), len(whole) // 40):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(InputError, match="damaged"):
            load_artifact(folder)
        refused += 1
    assert refused >= 40


def test_every_flipped_bit_of_the_configuration_is_an_error(folder: Path) -> None:
    path = folder / "config.json"
    whole = path.read_bytes()
    for place in range(0, len(whole), len(whole) // 100):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
        with pytest.raises(InputError, match="damaged|upgrade"):
            load_artifact(folder)


def test_a_killed_replacement_leaves_the_old_or_the_new_model(
    artifact: Artifact, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = {name: x + 1 for name, x in artifact.model.state_dict().items()}
    other = GraphModel(artifact.model.config).eval()  # pyright: ignore[reportArgumentType]
    other.load_state_dict(weights)
    new = replace(artifact, model=other, units=("new",))
    real = artifact_file.write_bytes
    for writes, unit in ((0, "log10(mol/L)"), (1, "log10(mol/L)"), (2, "new")):
        save_artifact(folder, artifact)
        done = 0

        def killed(path: Path, data: bytes, writes: int = writes) -> None:
            nonlocal done
            if done == writes:
                raise SystemExit
            done += 1
            real(path, data)

        with monkeypatch.context() as patch, suppress(SystemExit):
            patch.setattr(artifact_file, "write_bytes", killed)
            patch.setattr(artifact_file, "_finish_replacement", lambda _: None)  # a kill skips the cleanup
            save_artifact(folder, new)
        assert load_artifact(folder).units == (unit,)
        artifact_file._finish_replacement(folder)
        assert load_artifact(folder).units == (unit,)
        assert {p.name for p in folder.iterdir()} == {"model.safetensors", "config.json"}


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_truncated_file_is_an_error(folder: Path, name: str, share: float) -> None:
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(InputError, match="damaged"):
        load_artifact(folder)


def test_a_file_that_may_not_be_read_is_not_called_damaged(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, *_: object) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(artifact_file, "read_tensors", refuse)
        with pytest.raises(InputError, match=r"model cannot be read: .*Permission denied: '.*model\.safetensors'$"):
            load_artifact(folder)
    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(InputError, match=r"config\.json cannot be read: Permission denied$"):
        load_artifact(folder)


def test_a_missing_file_is_named(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"model\.safetensors is missing"):
        load_artifact(folder)


def test_the_error_for_a_newer_model_says_upgrade(folder: Path) -> None:
    _change(folder, schema=SCHEMA + 1, molattn="9.0")
    with pytest.raises(InputError, match=r"written by molattn 9\.0: upgrade"):
        load_artifact(folder)


def test_a_3d_model_saves_its_conformer_settings(artifact: Artifact, tmp_path: Path) -> None:
    options = ReadOptions(conformers=ConformerOptions(seed=7, timeout=3, on_failure="reject"))
    save_artifact(tmp_path, replace(artifact, read_options=options))
    assert load_artifact(tmp_path).read_options == options


def test_a_model_without_options_has_every_field(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    assert config["schema"] == SCHEMA == 1
    assert config["molecules"] == {"add_hs": False, "max_atoms": 1000, "standardize": "", "conformers": None}
    assert (config["descriptors"], config["members"]) == ([], 0)
    assert config["uncertainty"] == {"method": "none", "samples": 10}
    assert config["calibration"] is config["domain"] is None


def test_unknown_conformer_settings_are_an_error(folder: Path) -> None:
    conformers = {"seed": -1, "timeout": 10, "on_failure": "paths"}
    _change(folder, molecules={"add_hs": False, "max_atoms": 1000, "standardize": "", "conformers": conformers})
    with pytest.raises(InputError, match="damaged"):
        load_artifact(folder)


def test_another_vocabulary_is_an_error(folder: Path) -> None:
    _change(folder, vocabulary={})
    with pytest.raises(InputError, match="another vocabulary"):
        load_artifact(folder)


def test_an_unknown_setting_is_an_error(folder: Path) -> None:
    _change(folder, model={"kind": "graph", "unknown": 1})
    with pytest.raises(InputError, match="damaged"):
        load_artifact(folder)


def test_the_error_for_an_unknown_kind_of_model_names_it(folder: Path) -> None:
    _change(folder, model={"kind": "oracle"})
    with pytest.raises(InputError, match="of the kind 'oracle'; this molattn has graph"):
        load_artifact(folder)


def test_a_pickle_is_not_a_model(folder: Path) -> None:
    torch.save({"x": 1}, folder / "model.safetensors")
    with pytest.raises(InputError, match="damaged"):
        load_artifact(folder)


def test_scaler_leaves_out_missing_labels_and_constant_targets() -> None:
    targets = np.array([[1.0, 5.0], [3.0, 5.0], [np.nan, 5.0]])
    scaler = TargetScaler.fit(targets)
    assert scaler == TargetScaler((2.0, 5.0), (1.0, 1.0))
    np.testing.assert_allclose(scaler.unscale(scaler.scale(targets)), targets)


@pytest.mark.parametrize(
    "task", [Regression("mve"), Binary(), Binary(classes=(("no", "yes"),)), Multiclass(classes=(("a", "b", "c"),))]
)
def test_the_task_is_loaded(tmp_path: Path, task: Task) -> None:
    model = GraphModel(GraphModelConfig(hidden_dim=16, num_heads=4, num_layers=1), len(task.target_of_output(1))).eval()
    priors = task.class_priors(np.array([[0.0], [1.0], [1.0], [np.nan]]))
    written = Artifact(model, TargetScaler.identity(1), ("y",), ("",), task=task, class_priors=priors)
    save_artifact(tmp_path, written)
    loaded = load_artifact(tmp_path)
    assert loaded.task == task
    assert loaded.class_priors == priors
    constant = loaded.baseline_predictions(3)
    assert constant is not None
    expected = {"regression": 0.0, "binary": 2 / 3, "multiclass": 1.0}[task.kind]
    np.testing.assert_allclose(constant.values, np.full((3, 1), expected))
    assert (replace(loaded, class_priors=()).baseline_predictions(3) is None) == (task.kind != "regression")
    assert loaded.model.head.out_features == len(task.target_of_output(1))


def test_an_unknown_task_is_an_error(folder: Path) -> None:
    _change(folder, task={"kind": "ranking", "loss": "mse", "atom_level": False})
    with pytest.raises(InputError, match="the model's task is 'ranking'"):
        load_artifact(folder)


@pytest.mark.parametrize("sizes", [{"hidden_dim": 10**8}, {"num_layers": 10**12}, {"hidden_dim": 128}, {"max_path": 9}])
def test_sizes_above_those_of_the_weights_are_an_error_before_allocation(folder: Path, sizes: dict) -> None:
    config = json.loads((folder / "config.json").read_text())
    _change(folder, model={**config["model"], **sizes})
    with pytest.raises(InputError, match="is damaged"):
        load_artifact(folder)


@pytest.fixture
def everything() -> Artifact:
    """An ensemble with every optional part of an artifact."""
    scores = tuple({"z": np.arange(3.0) + t, "normalized_residuals": np.ones(3), "beta": np.zeros(1)} for t in range(2))
    task, models = Regression(), []
    for seed in range(3):
        torch.manual_seed(seed)
        models.append(GraphModel(replace(SMALL, dropout=0.1), 2, num_descriptors=2).eval().requires_grad_(False))
    return Artifact(
        model=models[0],
        scaler=TargetScaler((1.0, 2.0), (3.0, 4.0)),
        targets=("a", "b"),
        units=("m", ""),
        read_options=ReadOptions(True, 50, ConformerOptions(seed=7), "parent"),
        task=task,
        descriptors=DescriptorScaler(("d", "e"), (0.5, 1.5), (2.5, 0.0)),
        other_models=tuple(models[1:]),
        uncertainty_method="dropout",
        dropout_passes=4,
        calibration=Calibration("isotonic", "ensemble", scores),
        domain=ApplicabilityDomain(
            np.ones((2, 18), np.float32), np.arange(512, dtype=np.uint8).reshape(2, 256), 0.25, 0.75
        ),
    )


def test_every_part_of_an_artifact_is_saved_and_loaded(everything: Artifact, tmp_path: Path) -> None:
    save_artifact(tmp_path / "new" / "model", everything)
    found = load_artifact(tmp_path / "new" / "model")
    for name in ("scaler", "targets", "units", "read_options", "task"):
        assert getattr(found, name) == getattr(everything, name), name
    for name in ("descriptors", "uncertainty_method", "dropout_passes"):
        assert getattr(found, name) == getattr(everything, name), name
    assert len(found.models) == 3
    for a, b in zip(found.models, everything.models, strict=True):
        assert a.config == b.config and not a.training
        assert not any(p.requires_grad for p in a.parameters())
        assert a.state_dict().keys() == b.state_dict().keys()
        assert all(torch.equal(x, b.state_dict()[n]) for n, x in a.state_dict().items())
    c, d = found.calibration, found.domain
    assert c is not None and d is not None and everything.calibration is not None and everything.domain is not None
    assert (c.method, c.uncertainty_method, found.calibration_method) == ("isotonic", "ensemble", "isotonic")
    for one, other in zip(c.scores, everything.calibration.scores, strict=True):
        assert one.keys() == other.keys() and all(np.array_equal(one[k], other[k]) for k in one)
    assert (d.max_distance, d.min_similarity) == (0.25, 0.75)
    assert np.array_equal(d.embeddings, everything.domain.embeddings)
    assert np.array_equal(d.bits, everything.domain.bits)


def test_the_format_on_disk(everything: Artifact, tmp_path: Path) -> None:
    save_artifact(tmp_path, everything)
    config = json.loads((tmp_path / "config.json").read_text())
    weights = (tmp_path / "model.safetensors").read_bytes()
    assert config.pop("model")["hidden_dim"] == 16
    assert config.pop("vocabulary") == everything.model.vocabulary()
    assert config.pop("molattn") == version("molattn")
    assert config.pop("sha256")["model.safetensors"] == hashlib.sha256(weights).hexdigest()
    molecules = config.pop("molecules")
    assert molecules.pop("conformers")["seed"] == 7
    assert molecules == {"add_hs": True, "max_atoms": 50, "standardize": "parent"}
    assert config == {
        "schema": 1,
        "targets": [
            {"name": "a", "unit": "m", "mean": 1.0, "std": 3.0},
            {"name": "b", "unit": "", "mean": 2.0, "std": 4.0},
        ],
        "task": {"kind": "regression", "loss": "mse", "atom_level": False},
        "descriptors": [
            {"name": "d", "mean": 0.5, "std": 2.5, "computed": False},
            {"name": "e", "mean": 1.5, "std": 0.0, "computed": False},
        ],
        "members": 2,
        "uncertainty": {"method": "dropout", "samples": 4},
        "calibration": {"method": "isotonic", "uncertainty": "ensemble"},
        "domain": {"max_distance": 0.25, "min_similarity": 0.75},
    }
    names = set(load_file(tmp_path / "model.safetensors"))
    own = set(everything.model.state_dict())
    extra = {f"calibration.{t}.{k}" for t in (0, 1) for k in ("z", "normalized_residuals", "beta")} | {
        "domain.embeddings",
        "domain.bits",
    }
    assert names == own | {f"members.{i}.{n}" for i in (1, 2) for n in own} | extra


def test_columns_are_those_of_the_requested_uncertainty_method(everything: Artifact, artifact: Artifact) -> None:
    assert everything.extra_columns() == ["a_std", "b_std"] == everything.extra_columns("ensemble")
    assert everything.extra_columns("none") == [] == artifact.extra_columns()
    assert artifact.extra_columns("dropout") == ["log_solubility_std"]


def test_predictions_are_calibrated_by_the_default_method_or_another(artifact: Artifact) -> None:
    answers = Predictions(np.zeros((1, 1)), np.empty((1, 0)), std=np.ones((1, 1)))
    assert artifact.apply_calibration(answers) is answers
    scores = ({"z": np.array([3.0, 5.0])},)
    scaled = replace(artifact, calibration=Calibration("zscaling", "none", scores))
    for method, std in (("", 17**0.5), ("zscaling", 17**0.5), ("isotonic", 1.0), ("conformal-regression", 1.0)):
        found = scaled.apply_calibration(answers, method).std
        assert found is not None and found.item() == pytest.approx(std)


def test_an_unfinished_replacement_is_completed_or_removed(artifact: Artifact, folder: Path) -> None:
    config = (folder / "config.json").read_bytes()
    other = replace(artifact, units=("other",))
    save_artifact(folder.with_name("other"), other)
    theirs = (folder.with_name("other") / "config.json").read_bytes()
    # A configuration of other weights is ignored, and removed at the next save.
    mine = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    (folder / "config.next.json").write_bytes(theirs.replace(mine.encode(), b"0"))
    assert load_artifact(folder).units == ("log10(mol/L)",)
    artifact_file._finish_replacement(folder)
    assert {p.name for p in folder.iterdir()} == {"model.safetensors", "config.json"}
    assert (folder / "config.json").read_bytes() == config
    # The checksum of the weights counts in its own field only.
    content = json.loads(theirs.replace(mine.encode(), b"0"))
    content["targets"][0]["unit"] = mine
    for damaged in (json.dumps(content).encode(), b"[]", b"{", mine.encode()):
        (folder / "config.next.json").write_bytes(damaged)
        assert load_artifact(folder).units == ("log10(mol/L)",)
    artifact_file._finish_replacement(folder)
    assert (folder / "config.json").read_bytes() == config
    # A configuration of these weights is used.
    (folder / "config.next.json").write_bytes(theirs)
    assert load_artifact(folder).units == ("other",)
    (folder / "config.json").write_bytes(b"old")
    assert load_artifact(folder).units == ("other",)
    artifact_file._finish_replacement(folder)
    assert (folder / "config.json").read_bytes() == theirs
    assert {p.name for p in folder.iterdir()} == {"model.safetensors", "config.json"}
    # Without any weights it is a leftover, and removed.
    (folder / "model.safetensors").unlink()
    (folder / "config.next.json").write_bytes(theirs)
    artifact_file._finish_replacement(folder)
    assert {p.name for p in folder.iterdir()} == {"config.json"}


def test_a_failed_save_leaves_the_old_model(artifact: Artifact, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, before = artifact_file.write_bytes, {p.name: p.read_bytes() for p in folder.iterdir()}

    def full(path: Path, data: bytes) -> None:
        if path.name == "model.safetensors":
            raise OSError("no space left on device")
        real(path, data)

    monkeypatch.setattr(artifact_file, "write_bytes", full)
    with pytest.raises(OSError, match="no space"):
        save_artifact(folder, replace(artifact, scaler=TargetScaler((0.0,), (1.0,)), model=GraphModel(SMALL).eval()))
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"members": 3}, r"the tensor 'members\.3\.\S+' is missing; copy it again"),
        ({"members": 1}, r"the model has no tensor 'members\.2\.\S+'; copy it again"),
        ({"members": -1}, "members is -1, and must be a whole number from 0 to 1,000; copy it again"),
        ({"members": 10**9}, "members is 1000000000, and must be a whole number from 0 to 1,000; copy it again"),
        (
            {"uncertainty": {"method": "magic", "samples": 1}},
            "what is not available: unknown uncertainty method",
        ),
        (
            {"molecules": {"add_hs": True, "max_atoms": 5, "standardize": "x", "conformers": None}},
            "not available: the standard form 'x'; up",
        ),
        ({"model": {"kind": "oracle"}}, r"a model of the kind 'oracle'; this molattn has [\w-]+(, [\w-]+)+$"),
        (
            {"vocabulary": {}},
            r"vocabulary of molecules than that of this molattn; use molattn \S+ or train again",
        ),
        (
            {"targets": 3},
            "damaged or was changed: targets is 3, and must be a list of 1 to 20,000 values; copy it again",
        ),
        ({"calibration": {}}, "calibration has no field 'method'; copy it again"),
        ({"sha256": {}}, r"sha256 has no checksum of model\.safetensors; copy it again"),
        (
            {"sha256": {"other": "x"}},
            "sha256 has a checksum of 'other', which is not a file of a model; copy it again",
        ),
    ],
)
def test_the_error_names_inconsistent_fields(
    everything: Artifact, tmp_path: Path, fields: dict[str, object], message: str
) -> None:
    save_artifact(tmp_path / "m", everything)
    _change(tmp_path / "m", **fields)
    with pytest.raises(InputError, match=f"^{tmp_path / 'm'}.*{message}"):
        load_artifact(tmp_path / "m")


def test_a_calibration_by_distances_has_training_molecules(artifact: Artifact, tmp_path: Path) -> None:
    domain = ApplicabilityDomain(
        np.ones((2, artifact.embedding_dim), np.float32), np.zeros((2, 256), np.uint8), 0.25, 0.75
    )
    scores = ({"z": np.zeros(3), "normalized_residuals": np.arange(3.0), "beta": np.ones(1)},)
    for has_distances in (False, True):
        calibrated = replace(artifact, calibration=Calibration("conformal-regression", "none", scores, has_distances))
        save_artifact(tmp_path / "m", replace(calibrated, domain=domain))
        found = load_artifact(tmp_path / "m").calibration
        assert found is not None and found.has_distances == has_distances
    save_artifact(tmp_path / "m", replace(calibrated, domain=None))
    with pytest.raises(InputError, match=f"^{tmp_path / 'm'}.* distances to training molecules, which the model does"):
        load_artifact(tmp_path / "m")


def test_the_error_names_an_invalid_setting(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    _change(folder, model={**config["model"], "readout": "magic"})
    with pytest.raises(InputError, match="requires what is not available: .*magic"):
        load_artifact(folder)


def test_a_kill_before_the_configuration_is_replaced_followed_by_a_full_disk(
    artifact: Artifact, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = replace(artifact, model=GraphModel(SMALL).eval(), units=("newer",))
    with monkeypatch.context() as patch:
        patch.setattr(artifact_file, "_finish_replacement", lambda _: None)
        save_artifact(folder, newer)
    assert {p.name for p in folder.iterdir()} == {"model.safetensors", "config.json", "config.next.json"}
    real = artifact_file.write_bytes

    def full(path: Path, data: bytes) -> None:
        if path.name == "model.safetensors":
            raise OSError("no space left on device")
        real(path, data)

    monkeypatch.setattr(artifact_file, "write_bytes", full)
    with pytest.raises(OSError, match="no space"):
        save_artifact(folder, replace(artifact, model=GraphModel(SMALL).eval(), units=("newest",)))
    assert load_artifact(folder).units == ("newer",)


def test_it_predicts_with_its_own_uncertainty_method_or_another(artifact: Artifact) -> None:
    graphs = [molecule_graph(s) for s in ("CCO", "C")]
    alone = artifact.predict(graphs)
    assert np.array_equal(alone.values, predict_molecules(artifact.model, artifact.scaler, graphs))
    assert alone.std is None
    two = replace(artifact, other_models=(GraphModel(SMALL).eval(),), uncertainty_method="")
    assert two.uncertainty_method == "ensemble"
    both = two.predict(graphs)
    assert both.std is not None and (both.std > 0).all() and not np.allclose(both.values, alone.values)
    assert two.predict(graphs, uncertainty_method="none").std is None


@pytest.mark.parametrize("at_save", [torch.float32, torch.float64])
@pytest.mark.parametrize("at_load", [torch.float32, torch.float64])
def test_a_file_has_float32_whatever_the_default_dtype(tmp_path, at_save, at_load):
    try:
        torch.set_default_dtype(at_save)
        model = GraphModel(SMALL)
        save_artifact(tmp_path, Artifact(model, TargetScaler((0.0,), (1.0,)), ("y",), ("",)))
        torch.set_default_dtype(at_load)
        read = load_artifact(tmp_path)
        assert torch.get_default_dtype() == at_load
    finally:
        torch.set_default_dtype(torch.float32)
    wanted = model.state_dict()
    for name, x in read.model.state_dict().items():
        assert x.dtype == torch.float32 or not x.is_floating_point()
        torch.testing.assert_close(x, wanted[name].to(x.dtype), rtol=0, atol=0)
