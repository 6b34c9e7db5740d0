"""How far off predictions may be: from ensembles, dropout, or what the loss brings."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import torch

from molattn.data.tables.atom_lists import offsets_of
from molattn.errors import UsageError
from molattn.models.answers import Answers
from molattn.models.base import Molecule, MoleculeModel
from molattn.models.predict import outputs_of, refuse_not_finite
from molattn.models.scaler import TargetScaler
from molattn.models.tasks import Task

NONE, ENSEMBLE, DROPOUT = "none", "ensemble", "dropout"
_OF_LOSSES = {
    "mve": ("mve",),
    "evidential": ("evidential-total", "evidential-epistemic", "evidential-aleatoric"),
    "quantile": ("quantile-regression",),
    "dirichlet": ("dirichlet",),
}
METHODS = (NONE, ENSEMBLE, DROPOUT, *(name for names in _OF_LOSSES.values() for name in names))
"""What `--uncertainty-method` takes."""


def method_of(asked: str, task: Task, models: int, dropout: float) -> str:
    """The method of a model: the one asked for, or where that is empty the one that it was trained for.

    Args:
        asked: a name in `METHODS`, or empty.
        task: of the model.
        models: of the ensemble; 1 for none.
        dropout: the probability that the model was trained with.

    Raises:
        UsageError: there is no such method, or not for this model.
    """
    if not asked:
        return ENSEMBLE if models > 1 else task.method
    if asked not in METHODS:
        raise UsageError(f"there is no uncertainty method {asked!r}: choose among {', '.join(METHODS)}")
    if asked == ENSEMBLE and models == 1:
        raise UsageError("the uncertainty method ensemble needs several models: train with --ensemble-size 5")
    if asked == DROPOUT and not dropout:
        raise UsageError(
            "the uncertainty method dropout needs a model with dropout, and this one has none: train it with "
            "--set model.dropout=0.05"
        )
    loss = next((loss for loss, names in _OF_LOSSES.items() if asked in names), "")
    if loss and loss != task.loss:
        raise UsageError(f"the uncertainty method {asked} needs a model trained with --loss-function {loss}")
    return asked


def answers_of(
    models: Sequence[MoleculeModel],
    task: Task,
    scaler: TargetScaler,
    molecules: Sequence[Molecule],
    method: str = "",
    samples: int = 10,
    descriptors: np.ndarray | None = None,
    refused: dict[int, str] | None = None,
) -> Answers:
    """What one model or several say of `molecules`, and how far off that may be.

    y = mean_m y_m;   std^2 = mean_m std_m^2 + mean_k (y_k - mean_k y_k)^2

    m runs over the models, with the mean of their probabilities and of their quantiles likewise, and std_m is what a
    model itself answers, if its loss brings that. k runs over nothing for the methods that a loss brings, over the
    models for "ensemble", and for "dropout" over `samples` passes of every model with dropout switched on; y stays the
    prediction without dropout. With "none" there is no standard deviation. Of an evidential model std_m^2 is noise and
    ignorance together, or one of them. In the standard deviation of classes y is the probability of the class that is
    answered.

    Dropped are, call after call, the same channels: the same molecules bring the same numbers. Beside other molecules
    those of "dropout" differ within its sampling error.

    Sources: ensembles, Lakshminarayanan et al. (2017), NeurIPS 30, 6402; dropout, Gal and Ghahramani (2016), ICML,
    1050.

    Args:
        method: a name in `METHODS`; the one that models and loss bring when empty.
        samples: passes of the method "dropout".
        descriptors, refused: as for `outputs_of`.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # what overflows is refused, not warned of
        found = _answers(models, task, scaler, molecules, method, samples, descriptors, refused)
    if refused is not None:
        offsets = offsets_of(models[0].counts(molecules))
        refuse_not_finite(np.concatenate([found.values, found.more], 1), offsets, refused)
    return found


def _answers(
    models: Sequence[MoleculeModel],
    task: Task,
    scaler: TargetScaler,
    molecules: Sequence[Molecule],
    method: str,
    samples: int,
    descriptors: np.ndarray | None,
    refused: dict[int, str] | None,
) -> Answers:
    chosen = method or method_of("", task, len(models), 0.0)

    def said(model: MoleculeModel) -> Answers:
        return task.answers(outputs_of(model, molecules, descriptors=descriptors, refused=refused), scaler)

    each = [said(model) for model in models]
    mean = task.mixed(each) if len(each) > 1 else replace(each[0], std=None, ignorance=None)
    if chosen == NONE:
        return mean
    variances = [_own(part, chosen) for part in each if part.std is not None]
    variance = np.mean(variances, 0) if variances else np.zeros(mean.values.shape)
    apart = np.zeros_like(variance)
    if chosen in (ENSEMBLE, DROPOUT):
        parts = each
        if chosen == DROPOUT:
            parts = [said(m) for i, model in enumerate(models) for m in _passes(model, samples, i)]
        apart = np.var([task.followed(part, mean) for part in parts], axis=0)
    total = variance + apart
    known = [part.ignorance * part.std**2 for part in each if part.ignorance is not None and part.std is not None]
    ignorance = (apart + (np.mean(known, 0) if known else 0.0)) / np.where(total > 0, total, 1.0)
    tells = bool(known) or chosen in (ENSEMBLE, DROPOUT)
    return replace(mean, std=np.sqrt(total), ignorance=ignorance if tells else None)


def _own(part: Answers, method: str) -> np.ndarray:
    """The variance that a model answers itself, or that share of it that the method asks for."""
    assert part.std is not None
    if part.ignorance is None or method not in ("evidential-epistemic", "evidential-aleatoric"):
        return part.std**2
    return part.std**2 * (part.ignorance if method == "evidential-epistemic" else 1 - part.ignorance)


def _passes(model: MoleculeModel, samples: int, seed: int) -> Iterator[MoleculeModel]:
    """The model with dropout switched on, as often as there are `samples`; the caller's random state is left alone."""
    with torch.random.fork_rng(), _dropping(model):
        torch.manual_seed(seed)
        for _ in range(samples):
            yield model


@contextmanager
def _dropping(model: MoleculeModel) -> Iterator[None]:
    # No model here keeps statistics of its batches: dropout is all that training mode changes.
    model.train()
    try:
        yield
    finally:
        model.eval()
