"""A model on disk: what is written is read back, and what is damaged is refused."""

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from molattn.chem import Conformers, molecule_graph
from molattn.data.seal import sealed
from molattn.errors import InputError
from molattn.models import artifact as artifact_module
from molattn.models.artifact import SCHEMA, Artifact, load_artifact, save_artifact
from molattn.models.config import GraphModelConfig
from molattn.models.graph_model import GraphModel
from molattn.models.predict import predict_molecules
from molattn.models.scaler import TargetScaler
from molattn.models.tasks import Binary, Multiclass, Regression, Task
from tests.molecules import SPECIAL


@pytest.fixture
def folder(artifact: Artifact, tmp_path: Path) -> Path:
    save_artifact(tmp_path / "model", artifact)
    return tmp_path / "model"


def _change(folder: Path, **fields: object) -> None:
    """As another molattn might have written it."""
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_bytes(sealed({**config, **fields}, "config.json"))


def test_what_is_saved_is_loaded_to_the_bit(artifact: Artifact, folder: Path) -> None:
    loaded = load_artifact(folder)
    graphs = [molecule_graph(s) for s in SPECIAL]
    before = predict_molecules(artifact.model, artifact.scaler, graphs)
    assert np.array_equal(before, predict_molecules(loaded.model, loaded.scaler, graphs))
    assert not loaded.model.training
    assert (loaded.targets, loaded.units, loaded.scaler) == (artifact.targets, artifact.units, artifact.scaler)
    assert {p.name for p in folder.iterdir()} == {"model.safetensors", "config.json"}


def test_every_flipped_byte_of_the_weights_is_refused(folder: Path) -> None:
    path = folder / "model.safetensors"
    whole = path.read_bytes()
    refused = 0
    for place in range(0, len(whole), len(whole) // 40):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(InputError, match="damaged"):
            load_artifact(folder)
        refused += 1
    assert refused >= 40


def test_every_bit_of_the_configuration_counts(folder: Path) -> None:
    path = folder / "config.json"
    whole = path.read_bytes()
    for place in range(0, len(whole), len(whole) // 100):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
        with pytest.raises(InputError, match="damaged|upgrade"):
            load_artifact(folder)


def test_a_model_in_the_place_of_another_is_the_old_or_the_new_one(
    artifact: Artifact, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = {name: x + 1 for name, x in artifact.model.state_dict().items()}
    other = GraphModel(artifact.model.config).eval()  # pyright: ignore[reportArgumentType]
    other.load_state_dict(weights)
    new = replace(artifact, model=other, units=("new",))
    real = artifact_module.write_bytes
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
            patch.setattr(artifact_module, "write_bytes", killed)
            patch.setattr(artifact_module, "_settle", lambda _: None)  # nobody tidies up after a kill
            save_artifact(folder, new)
        assert load_artifact(folder).units == (unit,)
        artifact_module._settle(folder)
        assert load_artifact(folder).units == (unit,)
        assert {p.name for p in folder.iterdir()} == {"model.safetensors", "config.json"}


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_truncated_file_is_refused(folder: Path, name: str, share: float) -> None:
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(InputError, match="damaged"):
        load_artifact(folder)


def test_a_missing_file_is_named(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"model\.safetensors is missing"):
        load_artifact(folder)


def test_a_newer_model_asks_for_an_upgrade(folder: Path) -> None:
    _change(folder, schema=SCHEMA + 1, molattn="9.0")
    with pytest.raises(InputError, match=r"written by molattn 9\.0: upgrade"):
        load_artifact(folder)


def test_a_model_of_3d_remembers_how_its_molecules_are_embedded(artifact: Artifact, tmp_path: Path) -> None:
    conformers = Conformers(seed=7, timeout=3, on_failure="reject")
    save_artifact(tmp_path, replace(artifact, conformers=conformers))
    assert load_artifact(tmp_path).conformers == conformers
    # A molattn that knows no 3D must not use it.
    assert json.loads((tmp_path / "config.json").read_text())["schema"] == 2


def test_a_model_without_3d_is_written_and_read_as_before(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    assert config["schema"] == 1
    assert config["molecules"] == {"add_hs": False, "max_atoms": 1000}
    assert load_artifact(folder).conformers is None


def test_conformers_that_there_are_not_are_refused(folder: Path) -> None:
    _change(folder, schema=2, molecules={"add_hs": False, "max_atoms": 1000, "conformers": {"seed": -1}})
    with pytest.raises(InputError, match="damaged"):
        load_artifact(folder)


def test_other_codes_are_refused(folder: Path) -> None:
    _change(folder, vocabulary={})
    with pytest.raises(InputError, match="other codes"):
        load_artifact(folder)


def test_a_setting_that_no_model_has_is_refused(folder: Path) -> None:
    _change(folder, model={"kind": "graph", "evil": 1})
    with pytest.raises(InputError, match="damaged"):
        load_artifact(folder)


def test_a_kind_of_model_that_there_is_not_is_named(folder: Path) -> None:
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


def test_an_older_artifact_is_a_regression(artifact: Artifact, folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    assert config["schema"] == 1
    del config["task"], config["sha256"]["config.json"]
    (folder / "config.json").write_text(json.dumps(config))
    assert load_artifact(folder).task == artifact.task == Regression()


@pytest.mark.parametrize("task", [Regression("mve"), Binary(), Multiclass(classes=(("a", "b", "c"),))])
def test_the_task_is_loaded_too_and_older_versions_refuse_what_they_would_misread(tmp_path: Path, task: Task) -> None:
    model = GraphModel(GraphModelConfig(hidden_dim=16, num_heads=4, num_layers=1), len(task.owners(1))).eval()
    written = Artifact(model, TargetScaler.none(1), ("y",), ("",), False, 1000, task=task)
    save_artifact(tmp_path, written)
    assert json.loads((tmp_path / "config.json").read_text())["schema"] == 3
    loaded = load_artifact(tmp_path)
    assert loaded.task == task
    assert loaded.model.head.out_features == len(task.owners(1))


def test_a_task_that_does_not_exist_is_refused(folder: Path) -> None:
    _change(folder, task={"kind": "ranking", "loss": "mse"})
    with pytest.raises(InputError, match="the model's task is 'ranking'"):
        load_artifact(folder)


@pytest.mark.parametrize("sizes", [{"hidden_dim": 10**8}, {"num_layers": 10**12}, {"hidden_dim": 128}, {"max_path": 9}])
def test_sizes_that_the_weights_do_not_have_are_refused_without_their_memory(folder: Path, sizes: dict) -> None:
    config = json.loads((folder / "config.json").read_text())
    _change(folder, model={**config["model"], **sizes})
    with pytest.raises(InputError, match="is damaged"):
        load_artifact(folder)
