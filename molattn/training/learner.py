"""The steps of training and validation: the loss, its gradients, the optimizer and its scheduler."""

import inspect
import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from molattn.models.base import MoleculeModel
from molattn.models.scaler import TargetScaler
from molattn.models.task import Task
from molattn.models.tasks import REGRESSION
from molattn.training import distributed
from molattn.training.config import TrainingConfig
from molattn.training.dataset import LabelledMolecules, StepInputs
from molattn.training.flat_parameters import ExponentialMovingAverage, FlatParameters
from molattn.training.metrics import mean_over_targets, metrics_by_target
from molattn.training.objectives import AuxiliaryObjective, TaskLoss, class_weights, mean_loss
from molattn.training.parameter_groups import frozen_norms, trained_parts


class Learner(nn.Module):
    """A model in training: its loss, optimizer and scheduler, and the moving average of its weights.

    Args:
        model: trained in place.
        train: the training molecules, for the class weights.
        scaler: of the targets.
        config: the settings.
        task: of the model.
        metric: the validation metric.
        auxiliary_objective: an additional loss, or None.
        steps: of the whole training, for the scheduler.
        task_weights: a factor on the loss of each target; empty for none.

    Attributes:
        optimizer, scheduler: created by `prepare`.
        frozen: the parameters that are frozen, until `release`, or those of `temporarily_frozen` until a later epoch.
        temporarily_frozen: the names of the parameters that `start_epoch` will unfreeze.

    Raises:
        UsageError: `config.rate_factors` or `config.freeze` name a part that the model does not have.
    """

    auxiliary_objective: AuxiliaryObjective | None
    optimizer: torch.optim.Optimizer
    scheduler: torch.optim.lr_scheduler.LRScheduler

    def __init__(
        self,
        model: MoleculeModel,
        train: LabelledMolecules,
        scaler: TargetScaler,
        config: TrainingConfig,
        task: Task = REGRESSION,
        metric: str = "rmse",
        auxiliary_objective: AuxiliaryObjective | None = None,
        steps: int = 1,
        task_weights: Sequence[float] = (),
    ):
        super().__init__()
        self.factors, self.temporarily_frozen = trained_parts(model, config)
        named = {name: w for name, w in model.named_parameters() if w.requires_grad}
        self._frozen_names = {n for n in named if n in self.temporarily_frozen or not self.factors[n]}
        self.frozen = [named[name] for name in named if name in self._frozen_names]
        for w in self.frozen:
            w.requires_grad_(False)
        for norm in frozen_norms(model, self._frozen_names):
            norm.eval()
        self.auxiliary_objective = auxiliary_objective
        self.model, self.config, self.task, self.scaler, self.metric = model, config, task, scaler, metric
        self.average = ExponentialMovingAverage(model, config.ema)
        self.flat_parameters: FlatParameters | None = None
        self.steps = max(1, steps)
        weights = class_weights(task, train.targets, config.class_balance, config.positive_weights)
        self.loss = TaskLoss(task, scaler, weights, config.evidential_regularization, task_weights)
        self.train_losses, self.val_losses = _MeanLoss(), _MeanLoss()
        self.validation_outputs: list[tuple[np.ndarray, np.ndarray]] = []

    def prepare(self, device: torch.device | str = "cpu") -> None:
        """Move to a device, flatten the parameters, and create the optimizer and its scheduler."""
        self.to(device)
        self.flat_parameters = FlatParameters(self.model, self.factors, self.temporarily_frozen)
        auxiliary = [] if self.auxiliary_objective is None else list(self.auxiliary_objective.parameters())
        others = [w for w in self.model.parameters() if not w.requires_grad]
        distributed.broadcast(x.data for x in (*self.flat_parameters.flat, *auxiliary, *others, *self.model.buffers()))
        self.average.attach(self.model, self.flat_parameters.flat, self.factors, self.temporarily_frozen)
        # The fused implementation if the device has one, otherwise torch's default.
        fused = True if torch.device(device).type in ("cpu", "cuda") else None
        rate, decay = self.config.learning_rate, self.config.weight_decay
        # The first group has the factor 1, even if it is empty: its learning rate is the one that is reported.
        groups: dict[float, list[nn.Parameter]] = {1.0: []}
        for w, factor in zip(self.flat_parameters.flat, self.flat_parameters.factors, strict=True):
            groups.setdefault(factor, []).append(w)
        groups[1.0] += auxiliary
        by_rate = [{"params": weights, "lr": factor * rate} for factor, weights in groups.items()]
        self.optimizer = _AdamW(by_rate, lr=rate, weight_decay=decay, fused=fused)
        warmup = max(1, round(self.config.warmup * self.steps))

        def schedule(step: int) -> float:
            if step < warmup:
                return (step + 1) / warmup
            return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - warmup) / max(1, self.steps - warmup))))

        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, schedule)

    def start_epoch(self, epoch: int) -> None:
        """Unfreeze the parts that were frozen for the epochs before this one, from 0.

        They have no gradients before, so that AdamW initializes its moments of them at their first step.
        """
        if self.temporarily_frozen and epoch >= self.config.freeze_epochs:
            assert self.flat_parameters is not None, "call prepare first"
            self.flat_parameters.unfreeze()
            norms = frozen_norms(self.model, self._frozen_names)
            self._frozen_names -= self.temporarily_frozen
            still_frozen = frozen_norms(self.model, self._frozen_names)
            for norm in norms:
                norm.train(norm not in still_frozen)
            self.temporarily_frozen = set()

    def release(self) -> None:
        """Unflatten the parameters of the model, without gradients, unfreeze them, and move it to the CPU."""
        if self.flat_parameters is not None:
            self.flat_parameters.unflatten()
        for w in self.frozen:
            w.requires_grad_(True)
        self.to("cpu")

    def training_step(self, step: StepInputs) -> Tensor:
        """One step of the optimizer; returns the loss before it, with several ranks the share of this one."""
        loss = self.backward(step)
        if self.config.grad_clip:
            weights = (w for group in self.optimizer.param_groups for w in group["params"])
            nn.utils.clip_grad_norm_(weights, self.config.grad_clip)
        self.optimizer.step()
        self.scheduler.step()
        self.average.update()
        return loss

    def backward(self, step: StepInputs) -> Tensor:
        """Compute the gradients of a step, summed over all ranks; returns the loss of this rank."""
        assert self.flat_parameters is not None, "call prepare first"
        auxiliary = [] if self.auxiliary_objective is None else list(self.auxiliary_objective.parameters())
        loss = self.compute_loss(step)
        self.flat_parameters.zero_grad()
        for w in auxiliary:
            w.grad = None
        loss.backward()
        if distributed.world_size() > 1:
            distributed.all_reduce(
                [*self.flat_parameters.gradients, *(w.grad for w in auxiliary if w.grad is not None)]
            )
        return loss.detach()

    def compute_loss(self, step: StepInputs) -> Tensor:
        """The loss of a step, or with several ranks this rank's share of it; also added to `train_losses`."""
        batch, weights, auxiliary_targets, num_molecules, bounds = step
        assert batch.targets is not None
        if self.auxiliary_objective is None:
            outputs, auxiliary_loss = self.model(batch), None
        else:
            outputs, auxiliary_loss = self.auxiliary_objective(self.model, batch, auxiliary_targets)
        losses, labelled = self.loss(outputs, batch.targets, bounds)
        self.train_losses.add(losses, labelled, weights)
        loss = mean_loss(losses, labelled, weights)
        if distributed.world_size() > 1:
            labels = labelled.sum() if weights is None else (labelled * weights.unsqueeze(1)).sum()
            counts = torch.stack([labels.double(), labels.new_tensor(num_molecules, dtype=torch.float64)])
            label_share, molecule_share = self._rank_shares(counts)
            loss = loss * label_share
            auxiliary_loss = None if auxiliary_loss is None else auxiliary_loss * molecule_share
        return loss if auxiliary_loss is None else loss + auxiliary_loss

    def _rank_shares(self, counts: Tensor) -> Tensor:
        """This rank's fractions of the counts of all ranks; losses weighted by them sum to the loss of the batch."""
        total = counts.clone()
        distributed.all_reduce([total])
        return (counts / torch.where(total > 0, total, torch.ones_like(total))).float()

    def validation_step(self, step: StepInputs) -> None:
        """Add the loss of the averaged model to `val_losses`, and store its outputs for `pop_metric`."""
        batch = step.batch
        assert batch.targets is not None
        outputs = self.average.module(batch)
        losses, labelled = self.loss(outputs, batch.targets, step.bounds)
        self.val_losses.add(losses, labelled, step.weights)
        self.validation_outputs.append((outputs.cpu().numpy(), batch.targets.cpu().numpy()))

    def pop_metric(self) -> float:
        """The validation metric of the stored outputs, the mean over targets, NaN if undefined; clears the outputs."""
        batches = [batch for rank_batches in distributed.all_gather(self.validation_outputs) for batch in rank_batches]
        outputs, targets = (np.concatenate(parts) for parts in zip(*batches, strict=True))
        self.validation_outputs = []
        predictions = self.task.decode(outputs, self.scaler)
        names = [str(t) for t in range(targets.shape[1])]
        measured = metrics_by_target(self.task, names, targets, predictions, (self.metric,))
        mean = mean_over_targets(measured, (self.metric,))[self.metric]
        return math.nan if mean is None else mean


class _AdamW(torch.optim.AdamW):
    """`torch.optim.AdamW` without the decorators that import torch's compiler, which takes 2 seconds."""

    add_param_group, state_dict, load_state_dict, _step = (
        inspect.unwrap(getattr(torch.optim.AdamW, name))
        for name in ("add_param_group", "state_dict", "load_state_dict", "step")
    )

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        assert closure is None
        self._step()


class _MeanLoss:
    """The mean loss over batches."""

    def __init__(self) -> None:
        self.total: np.ndarray | float = 0.0
        self.count: np.ndarray | float = 0.0

    def add(self, losses: Tensor, labelled: Tensor, weights: Tensor | None = None) -> None:
        losses, counts = losses.detach().double(), labelled.double()
        if weights is not None:
            weights = weights.double().unsqueeze(1)
            losses, counts = losses * weights, counts * weights
        self.total = self.total + losses.sum(0).cpu().numpy()
        self.count = self.count + counts.sum(0).cpu().numpy()

    def pop(self) -> float:
        """The mean over all labels of all ranks, NaN without labels; resets the sums."""
        parts = distributed.all_gather((float(np.sum(self.total)), float(np.sum(self.count))))
        total, count = (sum(part) for part in zip(*parts, strict=True))
        self.__init__()
        return total / count if count > 0 else math.nan
