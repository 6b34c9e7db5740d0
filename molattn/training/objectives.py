"""The objectives of a training: the loss over the known labels, class weights, and auxiliary objectives."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from molattn.chem import ATOM_FEATURES, FEW_DESCRIPTORS
from molattn.chem.parse import NO_ATOM_LIMIT
from molattn.data.store.batches import MoleculeBatch
from molattn.errors import UsageError, molecule_level_only
from molattn.models.base import MoleculeModel
from molattn.models.graph_model import GraphModel
from molattn.models.loss_functions import DEFAULT_ALPHA, DEFAULT_REGULARIZATION, LossArguments
from molattn.models.random_states import seeded
from molattn.models.scaler import TargetScaler
from molattn.models.task import Task
from molattn.training.config import TrainingConfig
from molattn.training.dataset import LabelledMolecules
from molattn.training.descriptors import compute_descriptors, standardize_targets


class TaskLoss(nn.Module):
    """The loss of every label, by the function of the task's loss in `molattn.models.losses.LOSSES`.

    A missing label contributes neither loss nor gradient, whatever the output of the model.

    Args:
        task: determines the loss.
        scaler: of the targets.
        weights: w of the positive class of each target, (T,), or w of every class of every target, one after the other;
            empty for none.
        regularization: see `LossArguments`.
        task_weights: a factor on the loss of each target, (T,); empty for none.

    Attributes:
        target_of_output: the target of each output, (outputs,).
    """

    mean: Tensor
    std: Tensor
    target_of_output: Tensor
    weights: Tensor | None
    task_weights: Tensor | None

    def __init__(
        self,
        task: Task,
        scaler: TargetScaler,
        weights: Sequence[float] = (),
        regularization: float = DEFAULT_REGULARIZATION,
        task_weights: Sequence[float] = (),
    ):
        super().__init__()
        # In the precision of targets and scaler: a large mean in float32 would differ from that of the predictions.
        self.register_buffer("mean", torch.tensor(scaler.mean, dtype=torch.float64))
        self.register_buffer("std", torch.tensor(scaler.std, dtype=torch.float64))
        self.register_buffer("target_of_output", torch.tensor(task.target_of_output(len(scaler.mean))))
        self.register_buffer("weights", torch.tensor(tuple(weights)) if len(weights) else None)
        self.register_buffer("task_weights", torch.tensor(tuple(task_weights)) if len(task_weights) else None)
        self.function = task.loss_function.function
        self.reads_bounds = task.loss_function.reads_bounds
        self.alpha = getattr(task, "alpha", DEFAULT_ALPHA)
        self.regularization = regularization

    def forward(self, outputs: Tensor, targets: Tensor, bounds: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The losses, (b, T), zero where the label is missing, and the mask of known labels, (b, T).

        A bound is a known label for a loss that reads bounds, and a missing one otherwise.

        Shapes: outputs (b, outputs); targets (b, T), not standardized, NaN where missing; b counts molecules, or atoms;
        bounds (b, T, 2), lower and upper bounds, not standardized, NaN where there is none, or None.
        """
        labelled, is_lower, is_upper = torch.isfinite(targets), None, None
        if bounds is not None and self.reads_bounds:
            is_lower, is_upper = torch.isfinite(bounds).unbind(-1)
            lower, upper = bounds.unbind(-1)
            targets = torch.where(is_lower, lower, torch.where(is_upper, upper, targets))
            labelled = torch.isfinite(targets)
        z = ((targets - self.mean) / self.std).masked_fill(~labelled, 0.0)
        outputs = outputs.masked_fill(~labelled[:, self.target_of_output], 0.0)
        weights = None if self.weights is None else self.weights.to(outputs.dtype)
        arguments = LossArguments(self.target_of_output, weights, self.alpha, self.regularization, is_lower, is_upper)
        losses = self.function(outputs, z, arguments).masked_fill(~labelled, 0.0)
        if self.task_weights is not None:
            losses = losses * self.task_weights.to(losses.dtype)
        return losses, labelled


def mean_loss(losses: Tensor, labelled: Tensor, weights: Tensor | None = None) -> Tensor:
    """The mean over the known labels, weighted by `weights` of the rows, (b,); zero without a label."""
    count = labelled.to(losses.dtype)
    if weights is not None:
        weights = weights.to(losses.dtype).unsqueeze(1)
        losses, count = losses * weights, count * weights
    total = count.sum()
    return losses.sum() / torch.where(total > 0, total, torch.ones_like(total))


def class_weights(task: Task, train: np.ndarray, balanced: bool, positive: Sequence[float]) -> tuple[float, ...]:
    """The class weights of the loss; empty for none.

    balanced, binary:      w = negatives / positives
    balanced, multi-class: w_c = labels / (classes * labels of c)

    A class without a training label has weight 1.

    Args:
        train: the targets of the training molecules, (n, T).
        balanced: whether the classes of a target get equal total weight.
        positive: explicit weights of the positive class, one for all targets or one for each.

    Raises:
        UsageError: weights that do not apply to the task, a wrong number of them, or an invalid value.
    """
    if not balanced and not positive:
        return ()
    if balanced and positive:
        raise UsageError("training.class_balance and training.positive_weights both set class weights: leave one out")
    if positive:
        if task.kind != "binary":
            raise UsageError(
                f"training.positive_weights applies only to binary targets, and these are {task.kind}: leave it out"
            )
        if len(positive) not in (1, train.shape[1]):
            raise UsageError(
                f"training.positive_weights holds {len(positive)} numbers for {train.shape[1]} targets: give one, or "
                "one for each"
            )
        if not all(w > 0 and np.isfinite(w) for w in positive):
            raise UsageError("a setting is out of range: positive_weights are above 0")
        return tuple(positive) * (train.shape[1] if len(positive) == 1 else 1)
    weights: list[float] = []
    for t, column in enumerate(train.T):
        labels = column[np.isfinite(column)].astype(int)
        if task.kind == "binary":
            positives = int(labels.sum())
            weights.append((len(labels) - positives) / positives if 0 < positives < len(labels) else 1.0)
        elif task.classes:
            counts = np.bincount(labels, minlength=len(task.classes[t]))
            weights += [len(labels) / (len(counts) * c) if c else 1.0 for c in counts.tolist()]
        else:
            raise UsageError("training.class_balance applies only to classification, not to numbers: leave it out")
    return tuple(weights)


class AuxiliaryObjective(nn.Module, ABC):
    """An additional loss during training; its own weights are discarded afterwards."""

    @abstractmethod
    def forward(self, model: Any, batch: Any, auxiliary_targets: Tensor | None) -> tuple[Tensor, Tensor]:
        """The outputs of `model` for `batch`, and the loss to add to that of the targets.

        auxiliary_targets: (b, A) of `LabelledMolecules.auxiliary_targets`, or None.
        """


class AuxiliaryRegression(AuxiliaryObjective):
    """A second linear head on the readout x of each molecule.

    loss = weight * mean over known z of (V x + c - z)^2

    Args:
        model: whose readout is used.
        num_targets: A, the number of standardized targets z.
        weight: of the loss.

    Raises:
        ValueError: an atom-level model, which has no readout.

    Source: Caruana, Machine Learning 1997, 28, 41 (https://doi.org/10.1023/A:1007379606734).
    """

    def __init__(self, model: MoleculeModel, num_targets: int, weight: float):
        super().__init__()
        if model.atom_level:
            raise ValueError("auxiliary targets apply only to molecule-level models, and this one is atom-level")
        self.head, self.weight = nn.Linear(model.head.in_features, num_targets), weight

    def forward(self, model: MoleculeModel, batch: Any, auxiliary_targets: Tensor | None) -> tuple[Tensor, Tensor]:
        if auxiliary_targets is None:
            raise ValueError("the auxiliary regression needs auxiliary targets of each molecule")
        x = model.embeddings(batch)
        labelled = torch.isfinite(auxiliary_targets)
        z = auxiliary_targets.masked_fill(~labelled, 0.0)
        error = (self.head(x.to(self.head.weight.dtype)) - z).masked_fill(~labelled, 0.0)
        return model.apply_head(x), self.weight * error.square().sum() / labelled.sum().clamp(min=1)


class MaskedAtomPrediction(AuxiliaryObjective):
    """Prediction of the features of masked atoms, whose embeddings are replaced by one learned vector m.

    v_i = m for the masked i;   loss = weight * mean over them and over features f of -log softmax(W_f h_i + c_f)_code
    h_i = norm(v_i^L)

    Bonds, path lengths and the other atoms are not masked. The outputs for the targets are those of the masked
    molecule.

    Args:
        model: a graph model.
        fraction: the probability with which each atom is masked.
        weight: of the loss.

    Raises:
        ValueError: a model of another kind, or one with a virtual node.

    Source: Hu et al., Strategies for pre-training graph neural networks, ICLR 2020 (https://arxiv.org/abs/1905.12265).
    """

    def __init__(self, model: MoleculeModel, fraction: float, weight: float):
        super().__init__()
        if not isinstance(model, GraphModel) or model.virtual_node is not None:
            raise ValueError("atoms can be masked only in a graph model without a virtual node")
        d = model.config.hidden_dim
        self.mask = nn.Parameter(0.02 * torch.randn(d))
        self.codes = nn.Linear(d, sum(f.size for f in ATOM_FEATURES))
        self.fraction, self.weight = fraction, weight

    def forward(
        self,
        model: GraphModel,
        batch: MoleculeBatch,
        auxiliary_targets: Tensor | None,  # noqa: ARG002
    ) -> tuple[Tensor, Tensor]:
        masked = (torch.rand(batch.mask.shape, device=batch.mask.device) < self.fraction) & batch.mask
        graph = model.input_graph(batch)
        graph = graph.replace(v=torch.where(masked.unsqueeze(-1), self.mask.to(graph.v.dtype), graph.v))
        graph = model.forward_blocks(graph)
        outputs = model.forward_head(graph, batch)
        hidden, true = model.norm(graph.v[masked]), batch.atom_codes[masked].long()
        losses = [
            F.cross_entropy(logits, code, reduction="sum")
            for logits, code in zip(self._logits(hidden), true.T, strict=True)
        ]
        return outputs, self.weight * torch.stack(losses).sum() / max(1, true.numel())

    def _logits(self, hidden: Tensor) -> Iterator[Tensor]:
        """The logits of every feature, (masked atoms, codes)."""
        yield from self.codes(hidden).split([f.size for f in ATOM_FEATURES], dim=-1)


def add_auxiliary_targets(
    train: LabelledMolecules, config: TrainingConfig, warn: Callable[[str], None] = lambda _: None
) -> LabelledMolecules:
    """Add `FEW_DESCRIPTORS`, standardized, as auxiliary targets of the training molecules.

    Returns `train` unchanged if `config.auxiliary` is 0 or the descriptors are the same for all molecules.

    Args:
        train: the training molecules.
        config: the weight of the auxiliary loss.
        warn: called with a message if there is nothing to learn.

    Raises:
        UsageError: the targets are atom-level.
    """
    if not config.auxiliary:
        return train
    if train.offsets is not None:
        raise UsageError(molecule_level_only("training.auxiliary", "set training.auxiliary=0"))
    smiles = [m.smiles for m in train.molecules]
    values = compute_descriptors(smiles, FEW_DESCRIPTORS, config.num_workers, max_atoms=NO_ATOM_LIMIT)
    targets = standardize_targets(FEW_DESCRIPTORS, values, np.arange(len(values)))
    if not targets.names:
        warn("the auxiliary descriptors are the same for all training molecules: there are none to learn")
        return train
    return replace(train, auxiliary_targets=targets.z)


def build_auxiliary_objective(
    model: MoleculeModel, train: LabelledMolecules, config: TrainingConfig
) -> AuxiliaryRegression | None:
    """The auxiliary objective for the auxiliary targets of `train`; None if it has none.

    Args:
        model: before training.
        train: the training molecules, from `add_auxiliary_targets`.
        config: the weight of the auxiliary loss, and the seed of the objective's weights.
    """
    if train.auxiliary_targets is None:
        return None
    with seeded(config.seed):
        return AuxiliaryRegression(model, train.auxiliary_targets.shape[1], config.auxiliary)
