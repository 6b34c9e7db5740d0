"""Settings from files, options and `section.key=value`, and their error messages."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import tomli_w

from molattn.errors import UsageError
from molattn.training.run_config import SECTIONS, RunConfig, check_config, read_config, resolve


def test_a_written_configuration_is_read_back(tmp_path: Path) -> None:
    config = resolve(None, {"dataset": "esol", "target_columns": ["y"], "epochs": 3, "split_sizes": (0.7, 0.2, 0.1)})
    (tmp_path / "run.toml").write_text(tomli_w.dumps(config.to_dict()))
    assert RunConfig().updated(read_config(tmp_path / "run.toml"), "run.toml") == config


def test_later_values_override_earlier_ones(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text("[training]\nepochs = 1\nseed = 1\nbatch_size = 1\n")
    config = resolve(tmp_path / "run.toml", {"epochs": 2, "seed": 2, "batch_size": None}, ["training.seed=3"])
    assert (config.training.batch_size, config.training.epochs, config.training.seed) == (1, 2, 3)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("model.num_layers=6", 6),
        ("model.dropout=0", 0.0),
        ("model.readout=sum", "sum"),
        ('model.readout="sum"', "sum"),
        ("data.add_hs=true", True),
        ("data.conformers=true", True),
        ("data.on_3d_failure=stop", "stop"),
        ("data.split_sizes=[0.5, 0.25, 0.25]", (0.5, 0.25, 0.25)),
        ("data.target_columns=y", ("y",)),
        ("training.devices=2", "2"),
        ("data.smiles_column=a=b", "a=b"),
    ],
)
def test_a_setting_takes_the_type_of_its_field(text: str, value: object) -> None:
    section, key = text.partition("=")[0].split(".")
    changed = getattr(getattr(resolve(None, {}, [text]), section), key)
    assert changed == value
    assert type(changed) is type(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("num_layers=6", "write section.key=value"),
        ("model.num_layers", "write section.key=value"),
        ("modell.num_layers=6", "did you mean 'model'"),
        ("model.num_layer=6", "did you mean 'num_layers'"),
        ("model.num_layers=six", "takes a whole number"),
        ("model.num_layers=true", "takes a whole number"),
        ("model.dropout=much", "takes a number"),
        ("data.add_hs=1", "takes true or false"),
        ("data.conformers=yes", "takes true or false"),
        ("data.conformer_timeout=0.5", "takes a whole number"),
        ("data.split_sizes=[0.5, 'x', 0.2]", "takes a number"),
    ],
)
def test_an_invalid_setting_is_explained(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        resolve(None, {}, [text])


def test_an_unknown_option_is_explained() -> None:
    with pytest.raises(UsageError, match="unknown option 'epoch': did you mean 'epochs'"):
        resolve(None, {"epoch": 3})


@pytest.mark.parametrize("content", ["[model", "model = 3\n", "[modle]\n"])
def test_a_broken_file_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "run.toml").write_text(content)
    with pytest.raises(UsageError, match=r"run\.toml"):
        resolve(tmp_path / "run.toml", {})


def test_a_missing_file_is_named() -> None:
    with pytest.raises(UsageError, match="no configuration file 'nowhere.toml'"):
        resolve("nowhere.toml", {})


def test_setting_names_are_unique_across_sections() -> None:
    # An option is known by its own name alone.
    names = [{f.name for t in types for f in dataclasses.fields(t)} for types in SECTIONS.values()]
    assert len(set().union(*names)) == sum(map(len, names))


def test_an_unknown_model_is_explained() -> None:
    with pytest.raises(UsageError, match="unknown model 'grpah': .* did you mean 'graph'"):
        resolve(None, {"model": "grpah"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("training.weight_decay=-1", "weight_decay is 0 or more"),
        ("training.weight_decay=inf", "weight_decay is finite"),
        ("training.grad_clip=-1", "grad_clip is 0 or more"),
        ("training.grad_clip=nan", "grad_clip is 0 or more"),
        ("training.warmup=5", "warmup is from 0 to 1"),
        ("training.warmup=nan", "warmup is finite"),
        ("training.learning_rate=inf", "learning_rate is finite"),
        ("training.auxiliary=inf", "auxiliary is finite"),
        ("model.hidden_dim=0", "hidden_dim is 0, and must be a whole number from 1"),
        ("model.dropout=1", "dropout is 1.0, and must be a number from 0"),
    ],
)
def test_a_setting_out_of_range_is_named(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check_config(resolve(None, {}, [text]))


@pytest.mark.parametrize("text", ["weight_decay=0", "grad_clip=0", "warmup=0", "warmup=1"])
def test_the_ends_of_a_range_are_accepted(text: str) -> None:
    check_config(resolve(None, {}, [f"training.{text}"]))


def test_numbers_and_arrays_of_numpy_are_those_of_python() -> None:
    options = {"epochs": np.int64(3), "learning_rate": np.float64(0.5), "target_columns": np.array(["y", "z"])}
    config = resolve(None, options)
    assert (config.training.epochs, config.training.learning_rate) == (3, 0.5)
    assert config.data.target_columns == ("y", "z")
    with pytest.raises(UsageError, match=r"training.epochs is 0\.5; it takes a whole number"):
        resolve(None, {"epochs": np.float64(0.5)})
