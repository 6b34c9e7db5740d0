"""Validation of the configuration of a model: the type and range of each field, and the error messages."""

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from molattn.data.schema import dumps_checksummed, loads_checksummed
from molattn.errors import InputError
from molattn.models.artifact_file import load_artifact
from molattn.models.config import CONFIGS
from molattn.models.config_file import MAX_CONFIG_BYTES, model_config_of, read_config_file
from molattn.models.config_schema import MODEL_FIELDS
from molattn.models.presets import PRESETS
from tests.models.forms import FORMS, model_folders
from tests.models.tensors import saved

BASES = sorted((Path(__file__).parents[2] / "bases").glob("*/config.json"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A quantile model with an applicability domain."""
    return Path(shutil.copytree(model_folders()["quantile"], tmp_path / "model"))


def _changed(folder: Path, change: Callable[[dict[str, Any]], object]) -> str:
    """The error for the folder after a change with a new checksum."""
    config = json.loads((folder / "config.json").read_text())
    change(config)
    (folder / "config.json").write_bytes(dumps_checksummed(config, "config.json"))
    return _error_message(folder)


def _error_message(folder: Path) -> str:
    with pytest.raises(InputError) as raised:
        load_artifact(folder)
    assert str(folder) in str(raised.value) and "\n" not in str(raised.value)
    str(raised.value).encode()
    assert len(str(raised.value)) < 400 + len(str(folder))
    return str(raised.value)


def test_the_table_has_every_setting_of_every_model() -> None:
    assert MODEL_FIELDS.keys() == CONFIGS.keys()
    for kind, config in CONFIGS.items():
        assert set(MODEL_FIELDS[kind].optional) == {f.name for f in fields(config)}


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_in_range(name: str) -> None:
    read = MODEL_FIELDS["graph"].validate({"kind": "graph", **PRESETS[name].settings.get("model", {})}, "model")
    assert model_config_of({"model": read}).kind == "graph"


@pytest.mark.parametrize("name", [*FORMS, *(path.parent.name for path in BASES)])
def test_configurations_of_all_forms_are_read(name: str) -> None:
    folder = model_folders()[name] if name in FORMS else BASES[0].parents[1] / name
    assert json.loads(json.dumps(read_config_file(folder))) == json.loads((folder / "config.json").read_text())


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("hidden_dim", 0, "a whole number from 1 to 65,536"),
        ("hidden_dim", 8.0, "a whole number from 1 to 65,536"),
        ("num_layers", True, "a whole number from 1 to 1,000"),
        ("dropout", 1, "a number from 0 to 0.999999"),
        ("cutoff", 0.0, "a number from 1e-06 to 1e"),
        ("virtual_node", 1, "true or false"),
        ("readout", "x" * 101, "a string of 1 to 100 characters"),
        ("readout", ["mean"], "a string of 1 to 100 characters"),
        ("edges", "bond", "a list of 0 to 100 values"),
        ("lambdas", {}, "a list of 1 to 1,000 values"),
    ],
)
def test_a_setting_that_is_out_of_range_is_named(folder: Path, key: str, value: object, expected: str) -> None:
    message = _changed(folder, lambda config: config["model"].update({key: value}))
    assert f"model.{key} is " in message and f", and must be {expected}" in message


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda c: c["model"].update(edges=["bond"] * 100_000),
            "model.edges has 100,000 values, and must have 0 to 100",
        ),
        (lambda c: c["model"].update(edges=["bond", 3]), "model.edges[1] is 3, and must be a string of 1 to 100"),
        (lambda c: c["model"].update(unknown=1), "model has an unknown field 'unknown'"),
        (lambda c: c["molecules"].update(max_atoms=10**9), "molecules.max_atoms is 1000000000, and must be a whole"),
        (lambda c: c["molecules"].pop("add_hs"), "molecules has no field 'add_hs'"),
        (lambda c: c.update(uncertainty={"method": "dropout", "samples": 10**9}), "uncertainty.samples is 1000000000"),
        (lambda c: c["targets"][0].update(mean=None), "targets[0].mean is None, and must be a finite number"),
        (lambda c: c["targets"][0].update(mean="x"), "targets[0].mean is 'x', and must be a finite number"),
        (lambda c: c["targets"][0].update(std=0), "targets[0].std is 0, and must be a finite number above 0"),
        (lambda c: c["targets"][0].update(std=-1.0), "targets[0].std is -1.0, and must be a finite number above 0"),
        (lambda c: c["targets"][0].update(mean=10**400), "targets[0].mean is a number of over 100 digits"),
        (lambda c: c["targets"][0].update(name="\ud800"), r"targets[0].name is '\ud800', and must be a string"),
        (lambda c: c["targets"][0].update(unit="x" * 10**6), "targets[0].unit is 'xxxx"),
        (lambda c: c.update(targets=[]), "targets has 0 values, and must have 1 to 20,000"),
        (lambda c: c.update(targets=c["targets"] * 2), "targets has 'y' twice"),
        (lambda c: c.update(targets=c["targets"] * 30_000), "targets has 30,000 values"),
        (lambda c: c["task"].update(alpha=5), "task.alpha is 5, and must be a number between 0 and 1"),
        (
            lambda c: c["task"].update(loss="mse"),
            "task.alpha applies only to the loss quantile, not to 'mse'",
        ),
        (lambda c: c["task"].update(classes=[["a", "b"]]), "a task of the kind 'regression' has no task.classes"),
        (
            lambda c: c["task"].update(kind="binary", loss="bce", classes=[["a", "b", "c"]]),
            "task.classes[0] has 3 names, and a binary target has two classes",
        ),
        (lambda c: c["task"].update(atom_level=True), "domain applies only to molecule-level targets"),
        (
            lambda c: c["domain"].update(min_similarity=2),
            "domain.min_similarity is 2, and must be a number from",
        ),
        (lambda c: c["model"].update(edges=["distance"]), "model.edges reads distances, and molecules.conf"),
        (lambda c: c.update(schema="9"), "schema is '9', and must be a whole number from 1 to 1"),
        (lambda c: c.update(schema=9.5), "schema is 9.5, and must be a whole number from 1 to 1"),
        (lambda c: c.update(schema=-1), "schema is -1, and must be a whole number from 1 to 1"),
        (lambda c: c.update(schema=True), "schema is True, and must be a whole number from 1 to 1"),
        (lambda c: c.update(schema=None), "schema is None, and must be a whole number from 1 to 1"),
        (lambda c: c.pop("schema"), "the file has no field 'schema'"),
        (
            lambda c: c.update(schema=99, molattn="\x1b[2J"),
            "written by a later version of molattn: upgrade molattn",
        ),
        (lambda c: c.update(more=1), "the file has an unknown field 'more'"),
        (
            lambda c: c["targets"][0].update(class_priors=[0.5, 0.5]),
            "targets[0].class_priors applies only to classification, not to regression",
        ),
    ],
)
def test_the_error_names_an_invalid_value(
    folder: Path, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    assert message in _changed(folder, change)


@pytest.mark.parametrize(
    ("priors", "message"),
    [
        ([0.5, 0.25, 0.25], "targets[0].class_priors has 3 numbers for 2 classes"),
        ([0.5, 0.75], "targets[0].class_priors sums to 1.25, not to 1"),
        ([-0.5, 1.5], "targets[0].class_priors[0] is -0.5, and must be a number from 0 to 1"),
        ([], "targets[0].class_priors has 0 values, and must have 1 to"),
    ],
)
def test_the_error_names_invalid_class_priors(tmp_path: Path, priors: list[float], message: str) -> None:
    folder = Path(shutil.copytree(model_folders()["binary"], tmp_path / "model"))
    assert message in _changed(folder, lambda c: c["targets"][0].update(class_priors=priors))


def test_class_priors_are_those_of_all_targets(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(model_folders()["binary"], tmp_path / "model"))
    other = {"name": "d", "unit": "", "mean": 0.0, "std": 1.0}
    assert "1 of 2 targets have class_priors" in _changed(folder, lambda c: c["targets"].append(other))


def test_a_missing_checksum_is_an_error(folder: Path) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text())
    del config["sha256"]["config.json"]
    path.write_text(json.dumps(config))
    assert "sha256 has no checksum of config.json" in _error_message(folder)
    path.write_text(json.dumps({**config, "sha256": {**config["sha256"], "config.json": None}}))
    assert "sha256 has no checksum of config.json" in _error_message(folder)
    del config["sha256"]
    path.write_text(json.dumps(config))
    assert "it has no sha256 with checksums" in _error_message(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "it is nested too deeply"),
        ('{"schema": 1, "schema": 1}', "'schema' is a duplicate"),
        ('{"schema": NaN}', "NaN is not a number in JSON"),
        ('{"schema": -Infinity}', "-Infinity is not a number"),
        ("[]", "it has no sha256 with checksums"),
        ("null", "it has no sha256 with checksums"),
        ("", "it cannot be read"),
        ('{"schema": ' + "9" * 5_000 + "}", "it cannot be read"),
        ("\udcff", "it cannot be read"),
        (" " * (MAX_CONFIG_BYTES + 1), "it has over 16,777,216 bytes"),
    ],
)
def test_invalid_json_is_an_error(folder: Path, text: str, message: str) -> None:
    (folder / "config.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert message in _error_message(folder)


def test_an_infinite_number_is_an_error(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    text = dumps_checksummed(config, "config.json").decode().replace(repr(config["domain"]["max_distance"]), "1e999")
    (folder / "config.json").write_text(text)
    assert "checksum" in _error_message(folder)
    config["domain"]["max_distance"] = math.inf
    (folder / "config.json").write_bytes(dumps_checksummed(config, "config.json"))
    assert "Infinity is not a number" in _error_message(folder)


def test_zeros_in_a_name_are_not_taken_for_the_checksum() -> None:
    content = {"name": "0" * 64, "sha256": {"model.safetensors": "0" * 64}}
    data = dumps_checksummed(content, "config.json")
    found, is_intact = loads_checksummed(data, "config.json")
    assert is_intact and found["name"] == "0" * 64 and found["sha256"]["model.safetensors"] == "0" * 64
    assert not loads_checksummed(data.replace(b"0" * 64, b"1" * 64), "config.json")[1]


def test_a_model_of_tokens_has_no_conformers(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(model_folders()["tokens"], tmp_path / "model"))
    conformers = {"seed": 0, "timeout": 10, "on_failure": "paths"}
    assert "applies only to a graph model" in _changed(folder, lambda c: c["molecules"].update(conformers=conformers))


def test_the_error_for_a_damaged_base_names_the_damage(tmp_path: Path) -> None:
    from molattn.training.bases import find_base

    base = Path(shutil.copytree(BASES[0].parent, tmp_path / "base"))
    assert find_base(str(base)).model.kind == "graph"
    for card in ("molecules = 3", "[molecules]\nsource = 3", "[molecules]", "[molecules", "\x00"):
        (base / "card.toml").write_text(card)
        with pytest.raises(InputError, match=r"card\.toml is damaged, it cannot be read as the card of a base model"):
            find_base(str(base))
    shutil.copy(BASES[0].parent / "card.toml", base)
    message = _changed(base, lambda c: c["model"].update(num_heads="x"))
    assert "model.num_heads is 'x'" in message
    with pytest.raises(InputError, match=r"model\.num_heads is 'x'"):
        find_base(str(base))


def reweighed(folder: Path, change: Callable[[dict[str, Any]], object]) -> str:
    """The error message for the folder after a change of its tensors under a new checksum."""
    import hashlib

    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    data = saved(tensors)
    (folder / "model.safetensors").write_bytes(data)
    config = json.loads((folder / "config.json").read_text())
    config["sha256"]["model.safetensors"] = hashlib.sha256(data).hexdigest()
    (folder / "config.json").write_bytes(dumps_checksummed(config, "config.json"))
    return _error_message(folder)


@pytest.mark.parametrize("dtype", ["int64", "bool", "float8_e4m3fn", "complex64", "float64", "float16", "uint8"])
def test_weights_of_another_dtype_are_an_error(folder: Path, dtype: str) -> None:
    import torch

    message = reweighed(folder, lambda x: x.update({"head.weight": x["head.weight"].to(getattr(torch, dtype))}))
    assert "model.safetensors is damaged or was changed: the tensor 'head.weight' is " in message
    assert "and that of the model is float32 (3, 8)" in message or "a type that no model has" in message


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x["head.bias"].fill_(math.nan), "the tensor 'head.bias' holds nan, which is not a finite number"),
        (lambda x: x["head.bias"][1:].fill_(-math.inf), "the tensor 'head.bias' holds -inf"),
        (lambda x: x["domain.embeddings"].fill_(math.nan), "the tensor 'domain.embeddings' holds nan"),
        (lambda x: x.pop("head.bias"), "the tensor 'head.bias' is missing"),
        (lambda x: x.pop("domain.bits"), "the tensor 'domain.bits' is missing"),
        (lambda x: x.update(unknown=x["head.bias"].clone()), "the model has no tensor 'unknown'"),
        (lambda x: x.update({"calibration.0.z": x["head.bias"].clone()}), "the model has no tensor 'calibration.0.z'"),
        (lambda x: x.update({"head.weight": x["head.weight"].T.contiguous()}), "is float32 (8, 3), and that of the mo"),
        (lambda x: x.update({"domain.bits": x["domain.bits"][:, :9].contiguous()}), "'domain.bits' is uint8 ("),
    ],
)
def test_invalid_weights_are_an_error(folder: Path, change: Callable[[dict[str, Any]], object], message: str) -> None:
    assert message in reweighed(folder, change)


def test_calibration_scores_must_be_sorted(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(model_folders()["ensemble"], tmp_path / "model"))
    message = reweighed(folder, lambda x: x.update({"calibration.0.z": x["calibration.0.z"].flip(0).contiguous()}))
    assert "the tensor 'calibration.0.z' is not in ascending order" in message
    shutil.copytree(model_folders()["ensemble"], folder, dirs_exist_ok=True)
    message = reweighed(folder, lambda x: x.update({"calibration.0.beta": x["calibration.0.z"].clone()}))
    assert "the tensor 'calibration.0.beta' is float64 (" in message and "float64 (1,)" in message


def test_a_file_that_is_longer_than_its_tensors_is_not_read(folder: Path) -> None:
    path = folder / "model.safetensors"
    with open(path, "r+b") as file:
        file.truncate(2**31 - 1)  # no such bytes are on the disk
    assert "its list of tensors requires" in _error_message(folder)
    with open(path, "r+b") as file:
        file.truncate(2**40)
    assert "and the weights of a model have 2,147,483,648 at most" in _error_message(folder)


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"{",
        b"[]",
        b'{"head.bias": 3}',
        b'{"head.bias": {}}',
        b'{"head.bias": {"dtype": "F32", "shape": [1.5], "data_offsets": [0, 4]}}',
        b'{"head.bias": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}',
        b'{"head.bias": {"dtype": "F32", "shape": 3, "data_offsets": [0, 4]}}',
        b'{"head.bias": {"dtype": "F32", "shape": [1000000000000], "data_offsets": [0, 4]}}',
        b"[" * 100_000,
    ],
)
def test_a_malicious_list_of_tensors_is_an_error(folder: Path, header: bytes) -> None:
    for length in (len(header), 2**63, 2**64 - 1, 100_000_000, 0):
        (folder / "model.safetensors").write_bytes(length.to_bytes(8, "little") + header + b"0" * 64)
        assert "model.safetensors is damaged or was changed: " in _error_message(folder)


def test_overlapping_tensors_are_an_error(folder: Path) -> None:
    path = folder / "model.safetensors"
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    names = [name for name in header if name != "__metadata__"]
    one, other = (next(n for n in names if n.endswith(e)) for e in ("norm.weight", "norm.bias"))
    header[one]["data_offsets"] = header[other]["data_offsets"]
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])
    assert "its tensors cannot be read" in _error_message(folder)
