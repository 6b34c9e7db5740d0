"""Knowledge distillation for few training molecules: a teacher labels generated molecules, which the model learns too.

The teacher is the average of a network, trained as usual, and of kernel ridge regression on the embeddings of the base
models, as these were pretrained. With few labels such an average predicts better than the network. A second network,
which learns its predictions for variants of the training molecules in addition to the labels, predicts as well. The
teacher is then discarded, so that the model is one network, whose attention and attributions explain all it predicts.

Sources: Bucila, Caruana and Niculescu-Mizil, Model compression, KDD 2006, 535
(https://doi.org/10.1145/1150402.1150464), for labels of generated examples; Hinton, Vinyals and Dean, arXiv:1503.02531,
for distillation; Saunders, Gammerman and Vovk, Ridge regression learning algorithm in dual variables, ICML 1998, 515.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from molattn.chem import MAX_ATOMS, canonical_smiles, mutate_molecules, read_smiles
from molattn.errors import SmilesError
from molattn.models.artifact_file import load_artifact
from molattn.models.base import Molecule, MoleculeModel, model_class
from molattn.models.predict import compute_embeddings, compute_outputs
from molattn.models.predictions import Predictions, empty_distribution
from molattn.models.scaler import TargetScaler
from molattn.models.task import Task
from molattn.models.tasks import Regression
from molattn.training.bases import (
    DEFAULT_BASE,
    FEW_MOLECULES,
    LARGE_BASE,
    MOLECULES_WITH_VARIANTS,
    NO_BASE,
    base_names,
    find_base,
)
from molattn.training.config import TrainingConfig
from molattn.training.dataset import LabelledMolecules, PreparedDataset, weighted_labels
from molattn.training.initialization import resolve_initialization
from molattn.training.metrics import TRAIN_LOSS
from molattn.training.prepare import read_options
from molattn.training.run_config import RunConfig
from molattn.training.trees import fit_weights

TEACHER_BASES = (LARGE_BASE, DEFAULT_BASE)
"""The base models whose embeddings, concatenated, the kernel ridge regression reads; those that are installed."""

PENALTY = 0.3
"""Lambda of the kernel ridge regression: the variance of the noise of standardized labels."""

MIN_NOISE = 0.2
"""The least noise of labels, see `noise_of_labels`, for which distillation is a default.

`PENALTY` assumes noise of that size, and the second network reproduces less noisy labels less accurately than the
first. In the folds of TDC's tasks of that size the noise is 0.25 to 1.1. In the random splits of FreeSolv it is 0.02 to
0.16, and the RMSE of their test molecules, which decided this, was 0.06 kcal/mol larger with distillation."""

MAX_MOLECULES = 5_000
"""The maximum number of molecules that the kernel ridge regression learns; of more, a random sample."""

CLIP = 5.0
"""Embeddings are clipped at this many standard deviations from the mean of the training molecules."""

MIN_PROBABILITY = 0.02
"""The smallest probability of a class that the kernel ridge regression predicts: its outputs are not limited to [0, 1].
"""

MAX_EPOCHS = 10
"""The maximum number of epochs of the second training, each of which has several times as many molecules."""

AUXILIARY = 1.0
"""The weight of the auxiliary descriptors in the second training, where they have none in the first: see
`molattn.training.bases.FINE_TUNING_MANY`."""


@dataclass(frozen=True)
class Variants:
    """Generated molecules, and the predictions of kernel ridge regression for them and for the validation molecules.

    Attributes:
        molecules: n, as the model reads them.
        labels: (n, T), after the transforms of the targets.
        val_labels: (validation molecules, T), likewise.
    """

    molecules: list[Molecule]
    labels: np.ndarray
    val_labels: np.ndarray


def resolve_for_dataset(config: RunConfig, dataset: PreparedDataset) -> tuple[RunConfig, str]:
    """`resolve_for_molecules` of a run on a data set, whose settings of the data replace those of `config`."""
    config = replace(config, data=dataset.config)
    return resolve_for_molecules(config, dataset.task, dataset.subset("train"), dataset.subset("val"))


def resolve_for_molecules(
    config: RunConfig, task: Task, train: LabelledMolecules, val: LabelledMolecules
) -> tuple[RunConfig, str]:
    """`molattn.training.initialization.resolve_initialization` of a training, which decides whether it has a teacher.

    By default it has one for a number of molecules in `molattn.training.bases.FEW_MOLECULES`, where distillation
    applies and their labels are as noisy as `MIN_NOISE`.

    Args:
        config: as requested.
        task: of the targets.
        train, val: the training and the validation molecules.

    Raises:
        UsageError, InputError: as `resolve_initialization`.
    """
    variants = 0
    if (
        "training.distillation" not in config.explicit_keys
        and len(train) in FEW_MOLECULES
        and not why_not_distilled(task, config, train.bounds is not None, train.descriptors is not None)
        and noise_of_labels(task, train, val, config.training.seed) >= MIN_NOISE
    ):
        variants = MOLECULES_WITH_VARIANTS - len(train)
    return resolve_initialization(config, task.atom_level, len(train), variants)


def noise_of_labels(task: Task, train: LabelledMolecules, val: LabelledMolecules, seed: int = 0) -> float:
    """The part of the variance of the labels that kernel ridge regression leaves unexplained: a bound of their noise.

    noise = mean_v (y_v - s(x_v))^2 / var(y),   over the validation molecules v, with s of `generate_variants`

    Of several targets it is the mean over those with labels in both parts, infinite if there are none. It is not
    measured for classes, where it is infinite too.

    Args:
        task: of the targets.
        train, val: the training and the validation molecules.
        seed: of the sample, if there are more than `MAX_MOLECULES`.
    """
    if not isinstance(task, Regression):
        return np.inf
    x = _embeddings([_canonical(m.smiles) for m in (*train.molecules, *val.molecules)])
    known, new = x[: len(train)], x[len(train) :]
    noise = []
    for y, truth in zip(train.targets.T, val.targets.T, strict=True):
        variance = np.nanvar(y[weighted_labels(y, train.weights)])
        if variance > 0 and np.isfinite(truth).any():
            s = _kernel_ridge(known, y, train.weights, new, seed)
            noise.append(float(np.nanmean((truth - s) ** 2) / variance))
    return float(np.mean(noise)) if noise else np.inf


def why_not_distilled(task: Task, config: RunConfig, bounds: bool, descriptors: bool) -> str:
    """Why distillation does not apply to a training; empty if it does.

    Args:
        task, config: of the training.
        bounds: whether some labels are bounds.
        descriptors: whether the model reads extra descriptors.
    """
    if task.atom_level:
        return "it needs labels of molecules, and these are of atoms"
    if task.kind not in ("regression", "binary"):
        return "it applies to numbers and to two classes"
    if task.loss_function.outputs != 1:
        return f"the loss {task.loss} learns the spread of the labels, which those of a teacher do not have"
    if bounds:
        return "some labels are bounds, and kernel ridge regression learns none"
    if descriptors:
        return "the model reads extra descriptors, which generated molecules do not have"
    if config.data.conformers:
        return "the model reads 3D distances, which generated molecules do not have"
    if config.data.max_atoms > MAX_ATOMS:
        return f"molecules may have over {MAX_ATOMS:,} atoms, whose SMILES RDKit cannot always make canonical"
    if config.training.base == NO_BASE:
        return "its settings are those of trainings from a base model"
    if config.training.class_balance:
        return "the labels of a teacher have no classes to balance"
    if not any(name in base_names() for name in TEACHER_BASES):
        return "no base model is installed"
    return ""


def generate_variants(
    train: LabelledMolecules,
    val: LabelledMolecules,
    task: Task,
    config: RunConfig,
    warn: Callable[[str], None] = lambda _: None,
) -> Variants | None:
    """Variants of the training molecules with the labels of kernel ridge regression; None if there are none.

    s(x') = mean + std sum_i a_i k(x', x_i),   (K + lambda W^-1) a = z,   k(x, x') = exp(-|x - x'|^2 / (2 d))

    x are the standardized embeddings of the base models, d-dimensional, z the standardized labels, and W the weights of
    the training molecules, with mean 1. The labels of two classes are 0 and 1, and s is a probability. A variant is a
    training molecule after one to three random edits: `molattn.chem.mutate_molecules`.

    Args:
        train: the training molecules.
        val: the validation molecules, of which none is a variant.
        task: of the targets.
        config: the settings, resolved: `training.distillation` is the number of variants.
        warn: called with a message if that is an explicit setting but does not apply.

    Raises:
        InputError: a base model is damaged.
    """
    count = config.training.distillation
    if not count:
        return None
    warn = warn if "training.distillation" in config.explicit_keys else lambda _: None
    if reason := why_not_distilled(task, config, train.bounds is not None, train.descriptors is not None):
        warn(f"training.distillation has no effect: {reason}")
        return None
    smiles, val_smiles = ([_canonical(m.smiles) for m in part.molecules] for part in (train, val))
    generated, molecules = _generate(smiles, count, {*val_smiles}, config)
    if not molecules:
        warn("training.distillation has no effect: the training molecules have no variants")
        return None
    x = _embeddings([*smiles, *val_smiles, *generated])
    known, new = x[: len(smiles)], x[len(smiles) :]
    columns = [_kernel_ridge(known, y, train.weights, new, config.training.seed) for y in train.targets.T]
    labels = np.stack(columns, axis=1)
    if not isinstance(task, Regression):
        labels = labels.clip(MIN_PROBABILITY, 1 - MIN_PROBABILITY)
    return Variants(molecules, labels[len(val) :], labels[: len(val)])


def with_labels_of_teacher(
    train: LabelledMolecules,
    val: LabelledMolecules,
    variants: Variants,
    network: MoleculeModel,
    task: Task,
    scaler: TargetScaler,
) -> tuple[LabelledMolecules, tuple[float, ...]]:
    """The training molecules followed by the variants, with the labels of the teacher; and its weights w.

    y' = (1 - w) network + w s,   w for each target as in `molattn.training.trees.fit_weights`

    Args:
        train, val: the training and the validation molecules.
        variants: of the training molecules.
        network: trained on `train`.
        task, scaler: of the targets.
    """
    by_network = [
        task.decode(compute_outputs(network, molecules), scaler) for molecules in (val.molecules, variants.molecules)
    ]
    by_kernel = Predictions(variants.val_labels, empty_distribution(len(val)))
    shares = fit_weights(task, by_network[0], by_kernel, val.targets)
    w = np.asarray(shares)
    weights = train.weights
    if weights is not None:
        weights = np.asarray(weights, dtype=np.float64)
        weights = np.concatenate([weights, np.full(len(variants.molecules), weights.mean())])
    both = replace(
        train,
        molecules=[*train.molecules, *variants.molecules],
        targets=np.concatenate([train.targets, (1 - w) * by_network[1].values + w * variants.labels]),
        weights=weights,
        auxiliary_targets=None,
    )
    return both, shares


def describe_teacher(shares: Sequence[float], variants: Variants) -> str:
    """What the second training learns, in words."""
    percent = [f"{100 * w:.0f}%" for w in shares[:3]] + ([f"{len(shares) - 3:,} more"] if len(shares) > 3 else [])
    return (
        "the teacher is the average of this network and of kernel ridge regression on embeddings of the base models "
        f"(weight {', '.join(percent)}, fitted to the validation molecules); a new network learns its predictions for "
        f"{len(variants.molecules):,} variants of the training molecules, and their labels; --distillation 0 keeps the "
        "first network"
    )


def second_training(training: TrainingConfig) -> TrainingConfig:
    """The settings of the training on the labels of the teacher.

    All its epochs are run, and that with the lowest training loss is kept: so many labels leave little to overfit,
    which a few validation molecules could not tell.
    """
    epochs, auxiliary = min(training.epochs, MAX_EPOCHS), training.auxiliary or AUXILIARY
    return replace(training, epochs=epochs, patience=epochs, tracking_metric=TRAIN_LOSS, auxiliary=auxiliary)


def _canonical(smiles: str) -> str:
    return canonical_smiles(read_smiles(smiles))


def _generate(
    smiles: Sequence[str], count: int, excluded: set[str], config: RunConfig
) -> tuple[list[str], list[Molecule]]:
    """Variants of molecules: their SMILES, and as the model reads them."""
    longest = max(map(len, smiles))
    try:
        new = mutate_molecules(smiles, count, seed=config.training.seed, max_length=longest, exclude=excluded)
    except SmilesError:  # a molecule that is larger than RDKit's edits are made for
        return [], []
    read = model_class(config.model.kind).read(new, read_options(config.data), config.training.num_workers)
    pairs = [(text, m) for text, m in zip(new, read, strict=True) if not isinstance(m, SmilesError)]
    return [text for text, _ in pairs], [m for _, m in pairs]


def _embeddings(smiles: Sequence[str]) -> np.ndarray:
    """The embeddings of the base models, concatenated, (n, d)."""
    columns = []
    for name in TEACHER_BASES:
        if name in base_names():
            artifact = load_artifact(find_base(name).folder)
            reader = artifact.model.reader(artifact.read_options)
            columns.append(compute_embeddings(artifact.model, [reader(text) for text in smiles]))
    return np.concatenate(columns, axis=1)


def _kernel_ridge(x: np.ndarray, y: np.ndarray, weights: np.ndarray | None, new: np.ndarray, seed: int) -> np.ndarray:
    """The predictions of a target for the embeddings `new`: see `generate_variants`. `y` is NaN where missing."""
    used = np.flatnonzero(weighted_labels(y, weights))
    if len(used) > MAX_MOLECULES:
        used = np.sort(np.random.default_rng(seed).choice(used, MAX_MOLECULES, replace=False))
    noise = np.ones(len(used))
    if weights is not None and (chosen := np.asarray(weights, dtype=np.float64)[used]).all():
        noise = chosen.mean() / chosen
    mean, std = x[used].mean(0), x[used].std(0)
    std[std == 0] = 1.0

    def kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        distances = (a**2).sum(1)[:, None] + (b**2).sum(1) - 2 * a @ b.T
        return np.exp(-np.maximum(distances, 0.0) / (2 * a.shape[1]))

    known, new = (np.clip((values - mean) / std, -CLIP, CLIP) for values in (x[used], new))
    center, scale = y[used].mean(), y[used].std() or 1.0
    a = np.linalg.solve(kernel(known, known) + np.diag(PENALTY * noise), (y[used] - center) / scale)
    return kernel(new, known) @ a * scale + center
