"""Initialization from a base model: its sizes and weights, defaults that depend on it, and errors."""

import tomllib
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import molattn
from molattn.chem import grow_molecules, inchi_key
from molattn.data import column, datasets_dir, read_table
from molattn.data.datasets.excluded_molecules import HASH_FILE, ExcludedMolecules, evaluation_molecules, read_hashes
from molattn.errors import InputError, MolattnWarning, UsageError
from molattn.models.config import GraphModelConfig
from molattn.models.presets import PRESETS
from molattn.sklearn import MolAttentionRegressor
from molattn.training import bases, unlabelled
from molattn.training import distillation as distillation_module
from molattn.training import run as run_module
from molattn.training import train_arrays as arrays_module
from molattn.training.bases import (
    DEFAULT_BASE,
    FINE_TUNING,
    FINE_TUNING_MANY,
    FROM_SCRATCH,
    LARGE_BASE,
    MANY_MOLECULES,
    base_names,
    bases_dir,
    find_base,
)
from molattn.training.config import DataConfig, TrainingConfig
from molattn.training.initialization import initialize_model, resolve_initialization
from molattn.training.pretrain_config import PretrainConfig
from molattn.training.pretraining import pretrain
from molattn.training.run_config import RunConfig, resolve
from molattn.training.unlabelled import NCI_MOLECULES, collect_molecules
from tests.molecules import esol
from tests.training.test_pretraining import RecordingReporter

MOLECULES = grow_molecules(
    [s for s in esol(40)[0] if "." not in s], 30, seed=7, is_excluded=lambda s: s in evaluation_molecules()
)
SIZES = {"hidden_dim": 16, "num_layers": 1, "num_heads": 4, "edge_dim": 4}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A small base model."""
    folder = tmp_path_factory.mktemp("bases")
    (folder / "mine.smi").write_text("\n".join(MOLECULES) + "\n")
    training = TrainingConfig(epochs=2, batch_size=16, accelerator="cpu", base="none")
    run = RunConfig(model=GraphModelConfig(**SIZES), training=training)
    pretrain(PretrainConfig(molecules=str(folder / "mine.smi"), run=run), folder / "base", RecordingReporter())
    return str(folder / "base")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("table") / "t.csv"
    rows = [f"{s},{y}" for s, y in zip(*esol(40), strict=True)]
    path.write_text("\n".join(["smiles,y", *rows]) + "\n")
    return path


def test_sizes_and_weights_are_those_of_the_base_and_the_head_is_new(base: str) -> None:
    config = resolve(None, {"base": base})
    assert config.model == GraphModelConfig(**SIZES)
    model = initialize_model(config, 2, False)
    weights = load_file(Path(base) / "model.safetensors")
    for name, value in model.state_dict().items():
        if name.startswith("head."):
            assert value.shape != weights[name].shape
        else:
            assert torch.equal(value, weights[name]), name
    scratch = initialize_model(replace(config, training=replace(config.training, base="none")), 2, False)
    assert torch.equal(scratch.head.weight, model.head.weight)
    atom_level = initialize_model(config, 1, True)
    assert torch.equal(
        atom_level.state_dict()["embed_atoms.table.weight"], model.state_dict()["embed_atoms.table.weight"]
    )


def test_fine_tuning_defaults_apply_unless_set_explicitly(base: str) -> None:
    config, message = resolve_initialization(resolve(None, {"base": base}))
    assert config.training.epochs == FINE_TUNING["training"]["epochs"] != TrainingConfig.epochs
    assert config.training.patience == FINE_TUNING["training"]["patience"] != TrainingConfig.patience
    assert config.model.dropout == FINE_TUNING["model"]["dropout"] != GraphModelConfig.dropout
    assert base in message
    config, _ = resolve_initialization(
        resolve(None, {"base": base, "epochs": TrainingConfig.epochs}, [f"model.dropout={GraphModelConfig.dropout}"])
    )
    assert config.training.epochs == TrainingConfig.epochs
    assert config.model.dropout == GraphModelConfig.dropout


def test_defaults_for_many_molecules_apply_unless_set_explicitly(base: str) -> None:
    def settled(molecules: int, *settings: str, atom_level: bool = False, **options: object) -> tuple[float, float]:
        config, _ = resolve_initialization(resolve(None, {"base": base, **options}, settings), atom_level, molecules)
        return config.model.dropout, config.training.auxiliary

    few = (FINE_TUNING["model"]["dropout"], TrainingConfig.auxiliary)
    many = (FINE_TUNING_MANY["model"]["dropout"], FINE_TUNING_MANY["training"]["auxiliary"])
    assert many[0] == 0 < few[0]
    assert many[1] > 0 == few[1]
    assert (
        settled(0)
        == settled(MANY_MOLECULES[0] - 1)
        == settled(MANY_MOLECULES[-1] + 1)
        == settled(MANY_MOLECULES[0], atom_level=True)
        == few
    )
    assert settled(MANY_MOLECULES[0]) == settled(MANY_MOLECULES[-1]) == many
    assert settled(MANY_MOLECULES[0], "model.dropout=0.2") == (0.2, many[1])
    assert settled(MANY_MOLECULES[0], uncertainty_method="dropout") == (few[0], many[1])
    assert settled(MANY_MOLECULES[0], "training.auxiliary=0") == (many[0], 0)
    config, _ = resolve_initialization(resolve(None, {"base": base}), molecules=MANY_MOLECULES[0])
    assert config.training.epochs == FINE_TUNING["training"]["epochs"]
    plain = resolve(None, {"base": "none"})
    assert resolve_initialization(plain, molecules=MANY_MOLECULES[0]) == resolve_initialization(plain, molecules=1)


def test_the_default_base_is_the_large_one_for_many_molecules() -> None:
    def chosen(molecules: int, *settings: str, atom_level: bool = False, **options: object) -> str:
        config, message = resolve_initialization(resolve(None, options, settings), atom_level, molecules)
        assert (config.training.base in message) == (config.training.base != "none")
        return config.training.base

    first, last = MANY_MOLECULES[0], MANY_MOLECULES[-1]
    assert chosen(first) == chosen(last) == LARGE_BASE != DEFAULT_BASE
    assert chosen(0) == chosen(first - 1) == chosen(last + 1) == DEFAULT_BASE
    assert chosen(first, base=DEFAULT_BASE) == chosen(first, "model.hidden_dim=64") == DEFAULT_BASE
    assert chosen(first, "model.dropout=0.2") == chosen(first, "model.hidden_dim=128") == LARGE_BASE
    assert chosen(first, "model.readout=sum") == chosen(first, atom_level=True) == "none"
    # RDKit computes the targets of nci-logp, and the large base has learned them.
    assert chosen(first, dataset="nci-logp") == chosen(first, model="smiles-transformer") == "none"
    config = RunConfig(model=GraphModelConfig(hidden_dim=16))
    assert resolve_initialization(config, molecules=first)[0].model.hidden_dim == 16


def test_the_large_base_determines_the_settings_of_the_model() -> None:
    config, message = resolve_initialization(resolve(None, {}), molecules=MANY_MOLECULES[0])
    base = find_base(LARGE_BASE)
    assert config.model == replace(base.model, dropout=FINE_TUNING_MANY["model"]["dropout"])
    assert config.training.auxiliary == FINE_TUNING_MANY["training"]["auxiliary"]
    assert "CC BY-SA" in message  # whoever trains it is told the licence of the weights
    card = tomllib.loads((base.folder / "card.toml").read_text(encoding="utf-8"))
    assert card["licence"].startswith("CC BY-SA 3.0")
    weights, model = load_file(base.folder / "model.safetensors"), initialize_model(config, 1, False)
    assert all(torch.equal(v, weights[k]) for k, v in model.state_dict().items() if not k.startswith("head."))


@pytest.mark.parametrize("form", ["folder", "arrays"])
def test_the_number_of_molecules_is_that_of_the_training_split(
    form: str, base: str, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = []

    def seen(config: RunConfig, atom_level: bool = False, molecules: int = 0, *more: int) -> tuple[RunConfig, str]:
        taken.append(molecules)
        return resolve_initialization(config, atom_level, molecules, *more)

    if form == "folder":
        for module in (run_module, distillation_module):
            monkeypatch.setattr(module, "resolve_initialization", seen)
        molattn.train(table, base=base, output_dir=tmp_path / "run", epochs=1, accelerator="cpu", quiet=True)
        sides = column(read_table(tmp_path / "run" / "splits.csv"), "split")
        assert taken == [0, sides.count("train")]
    else:
        for module in (arrays_module, distillation_module):
            monkeypatch.setattr(module, "resolve_initialization", seen)
        smiles, y = esol(40)
        MolAttentionRegressor(epochs=1, accelerator="cpu", validation_fraction=0.25).fit(smiles, y)
        assert taken == [0, 30]


def test_defaults_of_a_graph_model_from_scratch() -> None:
    def taken(*settings: str, atom_level: bool = False, **options: object) -> tuple[tuple[str, ...], float]:
        config, message = resolve_initialization(resolve(None, {"base": "none", **options}, settings), atom_level)
        assert message == ""
        return config.data.molecule_featurizers, config.training.auxiliary

    few, weight = default = FROM_SCRATCH["data"]["molecule_featurizers"], FROM_SCRATCH["training"]["auxiliary"]
    assert few == ("rdkit_few",) != DataConfig.molecule_featurizers
    assert weight > 0 == TrainingConfig.auxiliary
    config, _ = resolve_initialization(resolve(None, {"base": "none"}))
    assert config.training == TrainingConfig(base="none", auxiliary=weight)
    assert config.data == DataConfig(molecule_featurizers=few)
    assert config.model == GraphModelConfig(max_path=FROM_SCRATCH["model"]["max_path"]) != GraphModelConfig()
    assert resolve_initialization(resolve(None, {"base": "none"}, ["model.max_path=20"]))[0].model == GraphModelConfig()
    for name in set(PRESETS) - {"molattn", "mat", "grit"}:  # these two do not read path lengths
        plain = resolve(None, {"base": "none", "preset": name})
        assert resolve_initialization(plain)[0].model == plain.model
    assert resolve_initialization(config)[0] == config
    assert taken("model.hidden_dim=16") == taken(preset="molattn") == taken(dataset="esol") == default
    assert taken("data.molecule_featurizers=[]") == ((), weight)
    assert taken(molecule_featurizers=["rdkit_2d"]) == (("rdkit_2d",), weight)
    assert taken("training.auxiliary=0") == (few, 0)
    assert taken("training.auxiliary=0.1") == (few, 0.1)
    nothing = ((), 0.0)
    assert taken(atom_level=True) == taken(model="smiles-transformer") == nothing
    assert taken(dataset="nci-logp") == taken(dataset="nci-tpsa") == nothing
    for name in set(PRESETS) - {"molattn"}:
        assert taken(preset=name) == nothing
        assert taken("training.auxiliary=0.3", preset=name, molecule_featurizers=["rdkit_few"]) == (few, 0.3)


def test_constant_descriptors_are_reported_only_if_they_are_configured(tmp_path: Path) -> None:
    table = tmp_path / "alike.csv"
    table.write_text(
        "smiles,y\n" + "".join(f"{s},{i}\n" for i, s in enumerate(["CC(O)F", "C[C@H](O)F", "C[C@@H](O)F"] * 4))
    )
    options = {"base": "none", "epochs": 1, "quiet": True, "settings": [f"model.{k}={v}" for k, v in SIZES.items()]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a subset of one molecule
        warnings.filterwarnings("error", "the auxiliary descriptors")
        molattn.train(table, output_dir=tmp_path / "run", **options)
        options["settings"] += ["training.auxiliary=0.3"]
        with pytest.raises(MolattnWarning, match="the auxiliary descriptors are the same"):
            molattn.train(table, output_dir=tmp_path / "explicit", **options)


@pytest.mark.parametrize(
    ("options", "settings", "reason"),
    [
        ({}, ["model.hidden_dim=32"], "model.hidden_dim is 32 and was 16"),
        ({"preset": "tensor-dot"}, [], 'model.attention is "tensor-dot" and was "molattn"'),
        ({"add_hs": True}, [], "data.add_hs is true and was false"),
        ({}, ["data.conformers=true"], "data.conformers is true and was false"),
        ({"model": "smiles-transformer"}, [], "model is smiles-transformer and was graph"),
    ],
)
def test_settings_that_conflict_with_the_base_model_are_refused(
    base: str, options: dict[str, object], settings: list[str], reason: str
) -> None:
    config = resolve(None, {"base": base, **options}, settings)
    with pytest.raises(UsageError, match=f"{reason}.*--base none"):
        resolve_initialization(config)


def test_dropout_may_differ_from_the_base_model(base: str) -> None:
    config, _ = resolve_initialization(resolve(None, {"base": base}, ["model.dropout=0.3"]))
    assert config.model == replace(GraphModelConfig(**SIZES), dropout=0.3)


def test_a_missing_or_damaged_base_model_is_refused(base: str, table: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no base model 'nowhere'"):
        molattn.train(table, base="nowhere", output_dir=tmp_path / "run", quiet=True)
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    for path in Path(base).iterdir():
        (damaged / path.name).write_bytes(path.read_bytes())
    weights = load_file(damaged / "model.safetensors")
    save_file({name: x + 1 for name, x in weights.items()}, damaged / "model.safetensors")
    with pytest.raises(InputError, match="is damaged or was changed: its checksum differs"):
        molattn.train(table, base=str(damaged), output_dir=tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


def test_a_run_from_a_base_model_is_repeated_and_resumed_bitwise(base: str, table: Path, tmp_path: Path) -> None:
    options = {"epochs": 3, "batch_size": 16, "accelerator": "cpu", "quiet": True}
    whole = molattn.train(table, base=base, output_dir=tmp_path / "whole", **options)
    config = tomllib.loads((whole.folder / "config.toml").read_text())
    assert config["training"]["base"] == base
    assert config["training"]["epochs"] == 3
    assert config["model"]["dropout"] == FINE_TUNING["model"]["dropout"]
    assert config["model"]["hidden_dim"] == 16
    again = molattn.train(config=whole.folder / "config.toml", output_dir=tmp_path / "again", quiet=True)
    scratch = molattn.train(config=whole.folder / "config.toml", base="none", output_dir=tmp_path / "none", quiet=True)
    assert again.metrics == whole.metrics != scratch.metrics

    def stop(_: object, record: object, __: int) -> None:
        if record.epoch == 2:  # pyright: ignore[reportAttributeAccessIssue]
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("molattn._train.PrintReporter.epoch", stop)
        with pytest.raises(KeyboardInterrupt):
            molattn.train(table, base=base, output_dir=tmp_path / "stopped", **options)
    resumed = molattn.train(resume=tmp_path / "stopped", quiet=True)
    assert resumed.metrics == whole.metrics


def test_replicates_start_from_the_base_model_and_can_be_resumed(base: str, table: Path, tmp_path: Path) -> None:
    options = {"epochs": 2, "batch_size": 16, "accelerator": "cpu", "quiet": True, "num_replicates": 2}

    def stop(_: object, record: object, __: int) -> None:  # noqa: ARG001
        if (tmp_path / "several" / "replicate_1" / "config.toml").is_file():
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("molattn._train.PrintReporter.epoch", stop)
        with pytest.raises(KeyboardInterrupt):
            molattn.train(table, base=base, output_dir=tmp_path / "several", **options)
    result = molattn.train(resume=tmp_path / "several", quiet=True)
    assert list(result.runs) == ["replicate_0", "replicate_1"]
    for name in result.runs:
        config = tomllib.loads((tmp_path / "several" / name / "config.toml").read_text())
        assert config["training"]["base"] == base
        assert config["model"]["dropout"] == FINE_TUNING["model"]["dropout"]


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Replace the base models of molattn by one of the default sizes that is hardly trained."""
    (tmp_path / "mine.smi").write_text("\n".join(MOLECULES) + "\n")
    run = RunConfig(training=TrainingConfig(epochs=1, accelerator="cpu", base="none"))
    pretrain(
        PretrainConfig(molecules=str(tmp_path / "mine.smi"), run=run),
        tmp_path / "bases" / DEFAULT_BASE,
        RecordingReporter(),
    )
    card = tmp_path / "bases" / DEFAULT_BASE / "card.toml"
    card.write_text(card.read_text().replace('source = "mine.smi"', f'source = "{NCI_MOLECULES}"'))
    monkeypatch.setattr(bases, "bases_dir", lambda: tmp_path / "bases")
    return DEFAULT_BASE


def test_auto_selects_the_default_base_model_if_it_is_compatible(own: str) -> None:
    assert base_names() == (own,)
    config, message = resolve_initialization(resolve(None, {"dataset": "esol", "base": "auto"}))
    assert config.training.base == DEFAULT_BASE
    assert "--base none" in message
    initialize_model(config, 1, False)
    few, weight = FROM_SCRATCH["data"]["molecule_featurizers"], FROM_SCRATCH["training"]["auxiliary"]
    for options, settings, known in (
        ({"preset": "additive"}, [], False),
        ({"model": "smiles-transformer"}, [], False),
        ({"add_hs": True}, [], True),
        ({"dataset": "nci-logp"}, [], False),
        ({}, ["model.hidden_dim=16"], True),
    ):
        plain = resolve(None, {**options, "base": "auto"}, settings)
        config, _ = resolve_initialization(plain)
        assert config.training == replace(plain.training, base="none", auxiliary=weight if known else 0.0)
        assert config.data == replace(plain.data, molecule_featurizers=few if known else ())
        initialize_model(config, 1, False)
    config, message = resolve_initialization(resolve(None, {"base": "auto"}), atom_level=True)
    assert config.training.base == "none"
    assert "atom-level" in message


def test_data_sets_that_the_base_model_was_trained_on_are_refused(own: str) -> None:
    for name in ("nci-logp", "nci-tpsa"):
        with pytest.raises(
            UsageError, match=f"the molecules of {name} are those that the base model {own} was trained on"
        ):
            resolve_initialization(resolve(None, {"dataset": name, "base": own}))


def test_without_any_base_training_starts_from_scratch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bases, "bases_dir", lambda: None)
    for options in ({}, {"base": "auto"}):
        config, message = resolve_initialization(resolve(None, options))
        assert (config.training.base, message) == ("none", "")


def test_every_included_base_model_is_complete_and_small() -> None:
    folder = bases_dir()
    for name in base_names():
        assert folder is not None
        assert sum(p.stat().st_size for p in (folder / name).iterdir()) < 4e6
        card = tomllib.loads((folder / name / "card.toml").read_text())
        assert card["licence"]
        assert card["command"].startswith("molattn pretrain")
        assert len(molattn.load(folder / name).targets) == len(card["targets"]["descriptors"])


@pytest.mark.slow  # computes the InChI of 5,000 molecules
def test_the_default_base_model_was_not_trained_on_esol(monkeypatch: pytest.MonkeyPatch) -> None:
    # It was made before the molecules in TEST_HASH_FILE were excluded.
    before = ExcludedMolecules(read_hashes(datasets_dir() / HASH_FILE))
    monkeypatch.setattr(unlabelled, "evaluation_molecules", lambda: before)
    folder = bases_dir()
    assert folder is not None
    card = tomllib.loads((folder / DEFAULT_BASE / "card.toml").read_text())
    seen = collect_molecules(NCI_MOLECULES)
    assert (card["molecules"]["count"], card["molecules"]["sha256"]) == (len(seen.smiles), seen.sha256)
    blocks = [{inchi_key(smiles).partition("-")[0] for smiles in some} for some in (seen.smiles, esol(1128)[0])]
    assert len(blocks[0]) > 3900
    assert len(blocks[1]) > 1100
    assert blocks[0].isdisjoint(blocks[1])
