"""The settings of a run: plain data, read from TOML and from `section.key=value`; importing it loads nothing heavy."""

import dataclasses
import difflib
import tomllib
import types
import typing
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from molattn.errors import UsageError
from molattn.models.config import CONFIGS, GraphModelConfig, ModelConfig
from molattn.models.presets import PRESETS
from molattn.training.bases import AUTO, NONE, find_base, sized


@dataclass(frozen=True)
class DataConfig:
    """Which molecules, and which of them are for what.

    Attributes:
        dataset: a name that molattn knows, or the path of a table.
        data_dir: a folder of data sets to look into first, and to download to; empty for the usual ones.
        smiles_column: the table's column of SMILES; found by its name when empty.
        target_columns: the table's columns to learn.
        weight_column: the table's column that says how much each row counts, 0 or more; empty for none.
        group_column: the table's column that says what each row belongs to, such as an assay or a series; rows of one
            group are on one side of the split. Empty for none.
        descriptor_columns: the table's columns of numbers that join the readout of each molecule, standardised.
        molecule_featurizers: descriptors that RDKit computes of each molecule, and that join its readout in the same
            way, names in `molattn.chem.MOLECULE_FEATURIZERS`. A graph model from scratch takes "rdkit_few", a dozen,
            unless somebody says.
        add_hs: whether hydrogens become atoms of the graph.
        max_atoms: larger molecules are refused.
        standardize: the form that molecules are brought to first: "parent" (groups normalised, the largest fragment,
            neutral where it can be) or "tautomer" (that, as its canonical tautomer); empty leaves them as they are.
        conformers: whether every molecule gets a 3D geometry, and the model its distances.
        conformer_seed: of the random start of each geometry.
        conformer_timeout: whole seconds for each of the two attempts at a fragment.
        on_3d_failure: what becomes of a molecule without a geometry: "paths" takes path lengths times a bond length
            and says so, "reject" leaves the row out, "stop" ends the run.
        split: "random", "scaffold", "scaffold-balanced", "cluster", "kennard-stone" or "stratified".
        split_sizes: shares of training, validation and test.
        calibration_size: share of all molecules that is taken from training and set aside for calibration, by `split`;
            0 for none.
        split_column: a column of the table that says train, val or test, and decides instead of `split`; empty for
            none.
        splits_file: a table of SMILES and sides that decides instead of `split`; empty for none.
        num_folds: of a cross-validation; 1 for none.
        fold: the one that this run tests, from 0; -1 for all of them, one after the other.
        task_type: what the targets are: "regression", "binary" or "multiclass", or where each cell holds a list with a
            value for every atom "atom-regression", "atom-binary" or "atom-multiclass"; guessed from them when empty.
    """

    dataset: str = ""
    data_dir: str = ""
    smiles_column: str = ""
    target_columns: tuple[str, ...] = ()
    weight_column: str = ""
    group_column: str = ""
    descriptor_columns: tuple[str, ...] = ()
    molecule_featurizers: tuple[str, ...] = ()
    add_hs: bool = False
    max_atoms: int = 1000
    standardize: str = ""
    conformers: bool = False
    conformer_seed: int = 0
    conformer_timeout: int = 10
    on_3d_failure: str = "paths"
    split: str = "random"
    split_sizes: tuple[float, ...] = (0.8, 0.1, 0.1)
    calibration_size: float = 0.0
    split_column: str = ""
    splits_file: str = ""
    num_folds: int = 1
    fold: int = -1
    task_type: str = ""


@dataclass(frozen=True)
class TrainingConfig:
    """How the model is fitted.

    Attributes:
        epochs: at most.
        batch_size: molecules in a batch; several devices share it.
        learning_rate: the largest, after the warm-up.
        weight_decay: AdamW's.
        warmup: share of the steps in which the learning rate rises; it then falls along a cosine.
        ema: decay per step of the running average of the weights, which is what is validated and kept; 0 for none.
            Less in the first steps, so that a short training does not average its random start.
        grad_clip: largest norm of the gradient.
        patience: epochs without a better validation loss after which training stops.
        seed: of the split, the weights, the batches and the dropout.
        base: where the weights come from before training: the name of a base model, or the folder of one that `molattn
            pretrain` wrote; "none" for nowhere, "auto" for molattn's own base where it fits.
        auxiliary: weight in the loss of a dozen descriptors that RDKit computes of the training molecules, and that the
            model learns beside its targets; 0 for none. A graph model from scratch takes 0.3, and a training from a
            base on 1,500 to 100,000 molecules 1, and no dropout, unless somebody says.
        checkpoint_every: epochs between two checkpoints, from which an interrupted run can go on.
        num_replicates: runs with this seed and the next ones, one after the other.
        ensemble_size: models of an ensemble, trained on one split with this seed and the next ones; 1 for none.
        accelerator: "cpu", "gpu", or "auto", a GPU where there is one.
        devices: how many of them on each machine, a process for each, or which, such as "0,2"; "auto" is one, or as
            many as torchrun started.
        num_nodes: machines that train together.
        num_workers: worker processes that read molecules; 0 reads them in this one.
        threads: CPU threads of the maths. A small model gains little from a second one, and threads that wait for
            each other crawl when anything else wants the cores.
        loss: of regression "mse", "mae", "huber", "mve" or "evidential" (a mean and a standard deviation) or "quantile"
            (the median and two quantiles), of binary targets "bce" or "dirichlet", of several classes "cross-entropy"
            or "dirichlet"; the first that fits when empty.
        alpha: of the loss "quantile": its two quantiles are alpha / 2 and 1 - alpha / 2.
        evidential_regularization: of the losses "evidential" and "dirichlet": what evidence for a wrong answer costs.
        uncertainty_method: how standard deviations are made, a name in `molattn.models.uncertainty.METHODS`; that of
            ensemble or loss when empty.
        dropout_sampling_size: passes of the uncertainty method "dropout".
        calibration_method: what is made of the calibration molecules where nobody asks for another, a name in
            `molattn.models.calibration.METHODS`; the conformal one when empty.
        domain_size: training molecules that the model keeps, at most, to tell what is unlike them; 0 for none.
        metrics: what is reported, the first of them epoch by epoch, names in `molattn.training.metrics.METRICS`; the
            task's own when empty.
        class_balance: the classes of a target count alike in the loss, however rare one is; probabilities are then
            those of balanced classes.
        positive_weights: of binary targets, what a one counts in the loss where a zero counts 1: one number, or one
            for each target.
    """

    epochs: int = 100
    batch_size: int = 32
    learning_rate: float = 1e-3
    weight_decay: float = 1e-2
    warmup: float = 0.05
    ema: float = 0.99
    grad_clip: float = 1.0
    patience: int = 40
    seed: int = 0
    base: str = AUTO
    auxiliary: float = 0.0
    checkpoint_every: int = 1
    num_replicates: int = 1
    ensemble_size: int = 1
    accelerator: str = "auto"
    devices: str = "auto"
    num_nodes: int = 1
    num_workers: int = 0
    threads: int = 1
    loss: str = ""
    alpha: float = 0.1
    evidential_regularization: float = 0.2
    uncertainty_method: str = ""
    dropout_sampling_size: int = 10
    calibration_method: str = ""
    domain_size: int = 1000
    metrics: tuple[str, ...] = ()
    class_balance: bool = False
    positive_weights: tuple[float, ...] = ()


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides a run, section by section of its `config.toml`.

    `said` are the settings that somebody gave a value, as "section.key": what is left may follow from others.
    """

    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=GraphModelConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    said: frozenset[str] = field(default=frozenset(), compare=False, repr=False)

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Sections of plain values, as they stand in a TOML file."""
        return {
            section: {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}
            for section, values in ((name, dataclasses.asdict(getattr(self, name))) for name in SECTIONS)
        }

    def updated(self, sections: dict[str, Any], source: str) -> "RunConfig":
        """This configuration with the values of `sections`; `source` says in an error where they came from.

        Raises:
            UsageError: a section or key that does not exist, or a value of the wrong type.
        """
        changed: dict[str, Any] = {}
        said: set[str] = set()
        for section, values in sections.items():
            if section not in SECTIONS:
                raise UsageError(f"{source}: there is no section [{section}]{_closest(section, SECTIONS)}")
            if not isinstance(values, dict):
                raise UsageError(f"{source}: {section} is a section; write its settings below [{section}]")
            current = getattr(self, section)
            if section == "model":
                current = _of_kind(current, values.get("kind", current.kind), source)
            hints = typing.get_type_hints(type(current))
            chosen = {}
            for key, value in values.items():
                if key not in hints:
                    raise UsageError(f"{source}: [{section}] has no setting {key!r}{_closest(key, hints)}")
                chosen[key] = _coerced(value, hints[key], f"{source}: {section}.{key}")
            changed[section] = dataclasses.replace(current, **chosen)
            said.update(f"{section}.{key}" for key in chosen)
        return dataclasses.replace(self, **changed, said=self.said | said)


def resolve(config: str | Path | None, options: dict[str, Any], settings: Iterable[str] = ()) -> RunConfig:
    """The settings of a run: defaults, option `preset`, a file, options by their own name, then `section.key=value`.

    Options that are None were not given. Raises UsageError as `RunConfig.updated` does.
    """
    resolved = RunConfig()
    options = dict(options)
    preset = options.pop("preset", None)
    if preset is not None:
        if preset not in PRESETS:
            raise UsageError(f"there is no preset {preset!r}{_closest(preset, PRESETS)}")
        resolved = resolved.updated(PRESETS[preset].settings, f"preset {preset}")
    if config is not None:
        resolved = resolved.updated(read_config(config), str(config))
    place_of = {f.name: (section, f.name) for section, types in SECTIONS.items() for t in types for f in fields(t)}
    place_of["model"] = ("model", "kind")
    # The kind of model first: it decides which other settings there are.
    for name, value in sorted(options.items(), key=lambda option: option[0] != "model"):
        if name not in place_of:
            raise UsageError(f"there is no option {name!r}{_closest(name, place_of)}")
        if value is not None:
            section, key = place_of[name]
            resolved = resolved.updated({section: {key: value}}, f"option {name}")
    for text in settings:
        resolved = resolved.updated(parse_setting(text), f"--set {text}")
    if preset is not None and resolved.model.kind != "graph":
        raise UsageError(f"the preset {preset} is of the model graph, not of {resolved.model.kind}: leave one out")
    if resolved.training.base not in (AUTO, NONE):
        of_model = {name.removeprefix("model.") for name in resolved.said if name.startswith("model.")}
        resolved = dataclasses.replace(
            resolved, model=sized(find_base(resolved.training.base), resolved.model, of_model)
        )
    if resolved.model.needs_3d and not resolved.data.conformers:
        raise UsageError("model.edges reads distances in 3D, which are not made: add --set data.conformers=true")
    return resolved


# What each section can be.
SECTIONS: dict[str, tuple[type, ...]] = {
    "data": (DataConfig,),
    "model": tuple(CONFIGS.values()),
    "training": (TrainingConfig,),
}


def _of_kind(current: ModelConfig, kind: Any, source: str) -> ModelConfig:
    """`current`, or the defaults of another kind of model."""
    if kind == current.kind:
        return current
    if kind not in CONFIGS:
        raise UsageError(f"{source}: there is no model {kind!r}{_closest(str(kind), CONFIGS)}")
    return CONFIGS[kind]()


def read_config(path: str | Path) -> dict[str, Any]:
    """The sections of a TOML file.

    Raises:
        UsageError: the file is missing or is not TOML.
    """
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"there is no configuration file {str(path)!r}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}") from None
    except RecursionError:
        raise UsageError(f"{path} is nested too deeply for settings") from None


def parse_setting(text: str) -> dict[str, dict[str, Any]]:
    """`section.key=value` as a section; the value is TOML, or else taken as text.

    >>> parse_setting("model.num_layers=6")
    {'model': {'num_layers': 6}}
    >>> parse_setting("model.readout=sum")
    {'model': {'readout': 'sum'}}
    """
    name, equals, value = text.partition("=")
    section, dot, key = name.strip().partition(".")
    if not (equals and dot and section and key):
        raise UsageError(f"--set {text!r}: write section.key=value, for example --set model.num_layers=6")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()
    return {section: {key: parsed}}


def _coerced(value: Any, hint: Any, where: str) -> Any:
    """`value` as the type that the setting has."""
    if typing.get_origin(hint) is tuple:
        item = typing.get_args(hint)[0]
        values = value if isinstance(value, list | tuple) else [value]
        return tuple(_coerced(v, item, where) for v in values)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is str and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if isinstance(hint, types.UnionType) or not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise UsageError(f"{where} is {value!r}; it takes {_NAMES.get(hint, str(hint))}")
    return value


_NAMES = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}


def _closest(name: str, names: Iterable[str]) -> str:
    names = list(names)
    close = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; there are {', '.join(names)}"
