"""One step of training: the loss, its gradients, the optimizer and its schedule; and what is validated."""

import inspect
import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from molattn.models.base import MoleculeModel
from molattn.models.predictions import Predictions
from molattn.models.scaler import TargetScaler
from molattn.models.tasks import REGRESSION, Task
from molattn.training import distributed
from molattn.training.companions import Companion
from molattn.training.config import TrainingConfig
from molattn.training.dataset import LabelledMolecules, StepInputs
from molattn.training.losses import TaskLoss, balance, mean_loss
from molattn.training.metrics import compute_metrics, mean_over_targets
from molattn.training.weights import RunningAverage, SideBySide


class Learner(nn.Module):
    """A model in training: its loss, optimizer and schedule, and the running average of its weights.

    Args:
        model: trained in place.
        train: its molecules, for the weights of classes.
        scaler: of the targets.
        config: the settings.
        task: what the targets are.
        metric: what is measured on the validation molecules.
        companion: what the model learns beside its targets; None for nothing.
        steps: of the whole training, for the schedule.

    Attributes:
        optimizer, schedule: there from `prepare` on.
    """

    optimizer: torch.optim.Optimizer
    schedule: torch.optim.lr_scheduler.LRScheduler

    def __init__(
        self,
        model: MoleculeModel,
        train: LabelledMolecules,
        scaler: TargetScaler,
        config: TrainingConfig,
        task: Task = REGRESSION,
        metric: str = "rmse",
        companion: Companion | None = None,
        steps: int = 1,
    ):
        super().__init__()
        self.companion = companion
        self.model, self.config, self.task, self.scaler, self.metric = model, config, task, scaler, metric
        self.average = RunningAverage(model, config.ema)
        self.side_by_side: SideBySide | None = None
        self.steps = max(1, steps)
        weights = balance(task, train.targets, config.class_balance, config.positive_weights)
        self.loss = TaskLoss(task, scaler, weights, config.evidential_regularization)
        self.train_losses, self.val_losses = _Losses(), _Losses()
        self.validated: list[tuple[np.ndarray, np.ndarray]] = []

    def prepare(self, device: torch.device | str = "cpu") -> None:
        """Move to a device, lay the weights side by side, and make the optimizer and its schedule."""
        self.to(device)
        self.side_by_side = SideBySide(self.model)
        beside = [] if self.companion is None else list(self.companion.parameters())
        distributed.broadcast(x.data for x in (*self.side_by_side.flat, *beside, *self.model.buffers()))
        self.average.follow(self.model, self.side_by_side.flat)
        # In one call; where there is none, torch's own choice.
        fused = True if torch.device(device).type in ("cpu", "cuda") else None
        rate, decay = self.config.learning_rate, self.config.weight_decay
        self.optimizer = _AdamW([*self.side_by_side.flat, *beside], lr=rate, weight_decay=decay, fused=fused)
        warmup = max(1, round(self.config.warmup * self.steps))

        def share(step: int) -> float:
            if step < warmup:
                return (step + 1) / warmup
            return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - warmup) / max(1, self.steps - warmup))))

        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, share)

    def release(self) -> None:
        """Give the model back, on the CPU, each weight in memory of its own and without a gradient."""
        if self.side_by_side is not None:
            self.side_by_side.part()
        self.to("cpu")

    def training_step(self, step: StepInputs) -> None:
        """One step of the optimizer."""
        self.backward(step)
        if self.config.grad_clip:
            weights = (w for group in self.optimizer.param_groups for w in group["params"])
            nn.utils.clip_grad_norm_(weights, self.config.grad_clip)
        self.optimizer.step()
        self.schedule.step()
        self.average.update()

    def backward(self, step: StepInputs) -> Tensor:
        """The gradients of a step in the place of those before, added up over all ranks; returns its loss here."""
        assert self.side_by_side is not None, "prepare comes first"
        beside = [] if self.companion is None else list(self.companion.parameters())
        loss = self.loss_of(step)
        self.side_by_side.zero_grad()
        for w in beside:
            w.grad = None
        loss.backward()
        if distributed.world_size() > 1:
            distributed.all_reduce([*self.side_by_side.gradients, *(w.grad for w in beside if w.grad is not None)])
        return loss.detach()

    def loss_of(self, step: StepInputs) -> Tensor:
        """The loss of a step, and of several ranks this one's share of it; it is counted in `train_losses`."""
        batch, rows, beside, asked = step
        assert batch.targets is not None
        if self.companion is None:
            outputs, more = self.model(batch), None
        else:
            outputs, more = self.companion(self.model, batch, beside)
        losses, known = self.loss(outputs, batch.targets)
        self.train_losses.add(losses, known, rows)
        loss = mean_loss(losses, known, rows)
        if distributed.world_size() > 1:
            labels = known.sum() if rows is None else (known * rows.unsqueeze(1)).sum()
            counts = torch.stack([labels.double(), labels.new_tensor(asked, dtype=torch.float64)])
            of_label, of_molecule = self._shares(counts)
            loss, more = loss * of_label, None if more is None else more * of_molecule
        return loss if more is None else loss + more

    def _shares(self, counts: Tensor) -> Tensor:
        """This rank's part of what all ranks count in a batch: with it the gradients of all add up to the batch's."""
        total = counts.clone()
        distributed.all_reduce([total])
        return (counts / torch.where(total > 0, total, torch.ones_like(total))).float()

    def validation_step(self, step: StepInputs) -> None:
        """Count the loss of the averaged model in `val_losses`, and keep what it answers for `take_metric`."""
        batch, rows = step[:2]
        assert batch.targets is not None
        outputs = self.average.module(batch)
        losses, known = self.loss(outputs, batch.targets)
        self.val_losses.add(losses, known, rows)
        self.validated.append((outputs.cpu().numpy(), batch.targets.cpu().numpy()))

    def take_metric(self) -> float:
        """The metric over all validation molecules since the last time, the mean over targets; NaN if undefined."""
        validated = [batch for of_rank in distributed.all_gather(self.validated) for batch in of_rank]
        outputs, targets = (np.concatenate(parts) for parts in zip(*validated, strict=True))
        self.validated = []
        answers = self.task.decode(outputs, self.scaler)
        measured = {str(t): self._measured(answers, targets[:, t], t) for t in range(targets.shape[1])}
        mean = mean_over_targets(measured, (self.metric,))[self.metric]
        return math.nan if mean is None else mean

    def _measured(self, answers: Predictions, true: np.ndarray, t: int) -> dict[str, Any]:
        return compute_metrics(true, self.task.scores(answers, t), (self.metric,))


class _AdamW(torch.optim.AdamW):
    """Torch's own, but for the decorators that import torch's compiler, two seconds, to tell it to leave this alone."""

    add_param_group, state_dict, load_state_dict, _step = (
        inspect.unwrap(getattr(torch.optim.AdamW, name))
        for name in ("add_param_group", "state_dict", "load_state_dict", "step")
    )

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        assert closure is None
        self._step()


class _Losses:
    """The mean loss over batches."""

    def __init__(self) -> None:
        self.total: np.ndarray | float = 0.0
        self.count: np.ndarray | float = 0.0

    def add(self, losses: Tensor, known: Tensor, rows: Tensor | None = None) -> None:
        weights = known.double() if rows is None else known.double() * rows.double().unsqueeze(1)
        total = losses.detach().double() if rows is None else losses.detach().double() * rows.double().unsqueeze(1)
        self.total = self.total + total.sum(0).cpu().numpy()
        self.count = self.count + weights.sum(0).cpu().numpy()

    def take(self) -> float:
        """The mean over all labels of all ranks, NaN without one; and start again."""
        parts = distributed.all_gather((float(np.sum(self.total)), float(np.sum(self.count))))
        total, count = (sum(part) for part in zip(*parts, strict=True))
        self.__init__()
        return total / count if count > 0 else math.nan
