"""Standard deviations of predictions: from ensembles, from dropout, or from the loss."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from molattn.data.tables.atom_lists import offsets_from_counts
from molattn.errors import UsageError, unknown_choice
from molattn.models.applicability_domain import ApplicabilityDomain
from molattn.models.batching import record_not_finite, rows_per_molecule
from molattn.models.losses import methods_of_losses
from molattn.models.magnitude import power_of_two
from molattn.models.molecule import Molecule
from molattn.models.predictions import NONE, Predictions
from molattn.models.scaler import TargetScaler
from molattn.models.task import Task

if TYPE_CHECKING:
    from molattn.models.base import MoleculeModel

ENSEMBLE, DROPOUT = "ensemble", "dropout"


def uncertainty_methods() -> tuple[str, ...]:
    """The choices of `--uncertainty-method`."""
    return (NONE, ENSEMBLE, DROPOUT, *methods_of_losses())


def resolve_uncertainty_method(requested: str, task: Task, num_models: int, dropout: float) -> str:
    """The requested method; if that is empty, "ensemble" for an ensemble, otherwise the default of the loss.

    Args:
        requested: one of `uncertainty_methods()`, or empty.
        task: of the model.
        num_models: size of the ensemble; 1 for none.
        dropout: the dropout probability that the model was trained with.

    Raises:
        UsageError: an unknown method, or one that this model does not support.
    """
    if not requested:
        return ENSEMBLE if num_models > 1 else task.uncertainty_method
    if requested not in uncertainty_methods():
        raise UsageError(unknown_choice("uncertainty method", requested, uncertainty_methods()))
    if requested == ENSEMBLE and num_models == 1:
        raise UsageError("the uncertainty method ensemble needs several models: train with --ensemble-size 5")
    if requested == DROPOUT and not dropout:
        raise UsageError(
            "the uncertainty method dropout needs a model with dropout, and this one has none: train it with "
            "--set model.dropout=0.05"
        )
    loss, _ = methods_of_losses().get(requested, ("", ""))
    if loss and loss != task.loss:
        raise UsageError(f"the uncertainty method {requested} needs a model trained with --loss-function {loss}")
    return requested


# Overflows are reported in `failures`, not as warnings.
@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def predict_with_uncertainty(
    models: "Sequence[MoleculeModel]",
    task: Task,
    scaler: TargetScaler,
    molecules: Sequence[Molecule],
    method: str = "",
    samples: int = 10,
    descriptors: np.ndarray | None = None,
    failures: dict[int, str] | None = None,
    domain: ApplicabilityDomain | None = None,
) -> Predictions:
    """Predictions of one model or of an ensemble, with standard deviations.

    y = mean_m y_m;   std^2 = mean_m std_m^2 + mean_k (y_k - mean_k y_k)^2

    m runs over the models; probabilities and quantiles are averaged in the same way. std_m is the standard deviation
    that a model itself predicts, if its loss provides one. k runs over the models for "ensemble", and over `samples`
    passes of every model with dropout enabled for "dropout"; the methods of a loss do not have the term in y_k. y
    itself is always the prediction without dropout. With "none" there is no standard deviation. For an evidential
    model, std_m^2 is the sum of the aleatoric and the epistemic variance, or one of them. For several classes, y_k is
    the probability of the predicted class.

    The dropout masks are seeded: the same molecules always get the same numbers. In a batch with other molecules, the
    standard deviations of "dropout" differ within the sampling error.

    Sources: ensembles, Lakshminarayanan et al. (2017), NeurIPS 30, 6402; dropout, Gal and Ghahramani (2016), ICML,
    1050.

    Args:
        method: one of `uncertainty_methods()`; if empty, see `resolve_uncertainty_method`.
        samples: passes of the method "dropout".
        descriptors, failures: as for `compute_outputs`.
        domain: for the `Predictions.distance` of the embeddings of the first model; None for no distances.
    """
    from molattn.models.predict import compute_outputs, compute_outputs_and_embeddings  # imports torch

    method = method or resolve_uncertainty_method("", task, len(models), 0.0)

    def predict(model: "MoleculeModel") -> Predictions:
        return task.decode(compute_outputs(model, molecules, descriptors=descriptors, failures=failures), scaler)

    if domain is None:
        first, distance = predict(models[0]), None
    else:
        outputs, embeddings = compute_outputs_and_embeddings(
            models[0], molecules, descriptors=descriptors, failures=failures
        )
        first, distance = task.decode(outputs, scaler), domain.distances(embeddings)
    members, samples_of_y = [first, *(predict(model) for model in models[1:])], []
    if method == DROPOUT:
        samples_of_y = [predict(m) for i, model in enumerate(models) for m in _dropout_passes(model, samples, i)]
    mean = replace(combine_members(members, task, method, samples_of_y), distance=distance)
    if failures is not None:
        record_failures(mean, molecules, task.atom_level, failures)
    return mean


def combine_members(
    members: Sequence[Predictions], task: Task, method: str, samples_of_y: Sequence[Predictions] = ()
) -> Predictions:
    """The prediction of one model or of an ensemble, with its standard deviations: see `predict_with_uncertainty`.

    Args:
        members: the predictions of each model.
        task: of the models.
        method: one of `uncertainty_methods()`.
        samples_of_y: the passes of the method "dropout".
    """
    mean = task.ensemble_mean(members) if len(members) > 1 else replace(members[0], std=None, epistemic_share=None)
    if method == NONE:
        return mean
    return _with_std(mean, members, members if method == ENSEMBLE else samples_of_y, task, method)


def record_failures(
    predictions: Predictions, molecules: Sequence[Molecule], atom_level: bool, failures: dict[int, str]
) -> None:
    """Add an error to `failures` for each molecule with a prediction that is not finite."""
    offsets = offsets_from_counts(rows_per_molecule(molecules, atom_level))
    record_not_finite(np.concatenate([predictions.values, predictions.extra_values], 1), offsets, failures)


def _with_std(
    mean: Predictions, members: Sequence[Predictions], samples_of_y: Sequence[Predictions], task: Task, method: str
) -> Predictions:
    """`mean` with its standard deviation, from the predictions of the models and the samples y_k, if there are any."""
    samples = [task.member_values(sample, mean) for sample in samples_of_y]
    # In units of the largest prediction of each target: squares in its own could be 0 or infinite.
    scale = np.array([power_of_two(np.stack([y, *(s[:, t] for s in samples)])) for t, y in enumerate(mean.values.T)])
    members = [m if m.std is None else replace(m, std=m.std / scale) for m in members]
    variances = [_model_variance(member, method) for member in members if member.std is not None]
    variance = np.mean(variances, 0) if variances else np.zeros(mean.values.shape)
    between = np.zeros_like(variance)
    if samples:
        between = np.var([sample / scale for sample in samples], axis=0)
    total = variance + between
    epistemic = [m.epistemic_share * m.std**2 for m in members if m.epistemic_share is not None and m.std is not None]
    share = (between + (np.mean(epistemic, 0) if epistemic else 0.0)) / np.where(total > 0, total, 1.0)
    has_share = bool(epistemic or samples)
    return replace(mean, std=scale * np.sqrt(total), epistemic_share=share if has_share else None)


def _model_variance(member: Predictions, method: str) -> np.ndarray:
    """The variance that a model itself predicts, or the part of it that the method requests."""
    assert member.std is not None
    _, part = methods_of_losses().get(method, ("", "total"))
    if member.epistemic_share is None or part == "total":
        return member.std**2
    return member.std**2 * (member.epistemic_share if part == "epistemic" else 1 - member.epistemic_share)


def _dropout_passes(model: "MoleculeModel", samples: int, seed: int) -> "Iterator[MoleculeModel]":
    """The model with dropout enabled, `samples` times; the caller's random state is not changed."""
    from torch import nn

    from molattn.models.random_states import seeded

    with seeded(seed, model.head.weight.device):
        model.train()
        for module in model.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.eval()  # in training mode it would change with each batch
        try:
            yield from [model] * samples
        finally:
            model.eval()
