"""The settings of a training as keyword arguments: their names and types, for `molattn.train` and scikit-learn."""

import inspect
import re
from collections.abc import Container, Sequence
from typing import TypedDict

from molattn.models.config import CONFIGS
from molattn.training.config import DataConfig, TrainingConfig


class EstimatorOptions(TypedDict, total=False):
    """The settings that are also parameters of the scikit-learn estimators; None is the default of each.

    They are described where they are declared: `DataConfig` and `TrainingConfig` in `molattn.training.config`, and
    `molattn.models.config`. `model` is the kind of model, and `preset` one of `molattn presets`.
    """

    preset: str | None
    model: str | None
    attention: str | None
    hidden_dim: int | None
    num_layers: int | None
    num_heads: int | None
    edges: Sequence[str] | str | None
    join_edges: str | None
    edge_dim: int | None
    nodes: Sequence[str] | str | None
    neighbours: str | None
    virtual_node: bool | None
    global_dim: int | None
    feed_forward: int | None
    readout: str | None
    dropout: float | None
    max_path: int | None
    path_edges: int | None
    walk_steps: int | None
    radial_bases: str | None
    num_bases: int | None
    cutoff: float | None
    distance_kernel: str | None
    lambdas: Sequence[float] | float | None
    normalizer: str | None
    join: str | None
    temperature: float | None
    target_transform: Sequence[str] | str | None
    molecule_featurizers: Sequence[str] | str | None
    add_hs: bool | None
    max_atoms: int | None
    standardize: str | None
    conformers: bool | None
    conformer_seed: int | None
    conformer_timeout: int | None
    on_3d_failure: str | None
    split: str | None
    calibration_size: float | None
    epochs: int | None
    batch_size: int | None
    learning_rate: float | None
    rate_factors: Sequence[str] | str | None
    freeze: Sequence[str] | str | None
    freeze_epochs: int | None
    weight_decay: float | None
    warmup: float | None
    ema: float | None
    grad_clip: float | None
    tracking_metric: str | None
    patience: int | None
    base: str | None
    auxiliary: float | None
    distillation: int | None
    ensemble_size: int | None
    accelerator: str | None
    num_workers: int | None
    threads: int | None
    loss: str | None
    alpha: float | None
    evidential_regularization: float | None
    uncertainty_method: str | None
    dropout_sampling_size: int | None
    calibration_method: str | None
    domain_size: int | None
    metrics: Sequence[str] | str | None
    with_trees: bool | None
    task_weights: Sequence[float | str] | float | str | None
    class_balance: bool | None
    positive_weights: Sequence[float] | float | None


class TrainOptions(EstimatorOptions, total=False):
    """The keyword arguments of `molattn.train`: those of `EstimatorOptions`, and those of tables and multiple runs.

    `score` is only here, since `score` is a method of an estimator.
    """

    score: str | None
    data_dir: str | None
    encoding: str | None
    no_header_row: bool | None
    sheet: str | None
    smiles_column: str | None
    target_columns: Sequence[str] | str | None
    task_type: str | None
    positive_class: str | None
    max_unreadable: float | None
    decimal: str | None
    thousands: str | None
    weight_column: str | None
    group_column: str | None
    descriptor_columns: Sequence[str] | str | None
    duplicates: str | None
    split_sizes: Sequence[float] | float | None
    split_column: str | None
    splits_file: str | None
    num_folds: int | None
    fold: int | None
    seed: int | None
    faithfulness_molecules: int | None
    baseline: bool | None
    checkpoint_every: int | None
    num_replicates: int | None
    devices: str | None
    num_nodes: int | None


def describe_settings(names: Container[str]) -> str:
    """The descriptions of the settings in `names`, as lines `name: text`, from the docstrings of the settings."""
    entries: dict[str, str] = {}
    described: set[str] = set()
    for kind in (*CONFIGS.values(), DataConfig, TrainingConfig):
        attributes = (inspect.getdoc(kind) or "").partition("Attributes:\n")[2]
        for group, text in re.findall(r"^    (\w+(?:, \w+)*): (.*(?:\n {8}.*)*)", attributes, re.MULTILINE):
            chosen = [name for name in group.split(", ") if name in names and name not in described]
            described |= set(chosen)
            if chosen:
                entries[", ".join(chosen)] = text
    return "\n".join(f"{name}: {text}" for name, text in entries.items()).replace("\n        ", "\n    ")
