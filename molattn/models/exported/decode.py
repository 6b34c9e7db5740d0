"""Decodes the raw outputs of models to predictions in the units of the targets, by torch operations that are exported.

The equations are those of `Task.decode`, `combine_members`, `apply_calibration` and `TargetScaler`, which predict
with numpy; the tests compare them.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from molattn.models.artifact import Artifact
from molattn.models.calibration import ISOTONIC, ZSCALING, Scores
from molattn.models.loss_functions import MIN_VARIANCE
from molattn.models.losses import methods_of_losses
from molattn.models.names import LOG1P, LOG10, NEG_LOG10_MOLAR
from molattn.models.predictions import NONE, normal_quantile
from molattn.models.target_transform import MOLAR, TargetTransform
from molattn.models.tasks import Multiclass, Regression
from molattn.models.uncertainty import DROPOUT, ENSEMBLE

DECODED_LOSSES = {
    "regression": ("mve", "evidential", "quantile"),
    "binary": ("bce", "dirichlet"),
    "multiclass": ("cross-entropy", "dirichlet"),
}
"""The losses whose outputs are decoded here, by the kind of the task; for regression, also all with one output."""


class Decoded(NamedTuple):
    """The predictions of models, as `molattn.models.predictions.Predictions`, of any shape (..., T) and (..., M)."""

    values: Tensor
    distribution: Tensor | None = None
    std: Tensor | None = None
    epistemic_share: Tensor | None = None


def undecoded_reason(artifact: Artifact) -> str:
    """Why the outputs of a model cannot be decoded here; empty if they can."""
    task = artifact.task
    if artifact.uncertainty_method == DROPOUT:
        return (
            "its standard deviations come from passes with dropout, and an exported model makes one pass: train with "
            "another --uncertainty-method, such as none"
        )
    if task.loss in DECODED_LOSSES[task.kind] or (task.kind == "regression" and task.loss_function.spread is None):
        return ""
    return f"its loss {task.loss} is that of a plugin, whose outputs are decoded in Python"


class Decoder(nn.Module):
    """Raw outputs of all models, (models, ..., outputs), to a `Decoded` in the units of the targets, calibrated.

    Args:
        artifact: the model, for which `undecoded_reason` is empty.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, artifact: Artifact):
        super().__init__()
        self.task, self.method = artifact.task, artifact.uncertainty_method
        self.calibration, self.transforms = artifact.calibration, artifact.scaler.transforms
        self.register_buffer("mean", _constant(artifact.scaler.mean), persistent=False)
        self.register_buffer("scale", _constant(artifact.scaler.std), persistent=False)

    def forward(self, outputs: Tensor) -> Decoded:
        """The predictions."""
        members = [self._decode(member) for member in outputs.to(torch.float64).unbind(0)]
        return self._inverse_transform(self._calibrate(self._combine(members)))

    def _decode(self, outputs: Tensor) -> Decoded:
        """`Task.decode`: the predictions of one model."""
        if isinstance(self.task, Regression):
            return self._decode_numbers(outputs, self.task)
        if isinstance(self.task, Multiclass):
            sizes = [len(names) for names in self.task.classes]
            return _of_classes([self._probabilities(part) for part in outputs.split(sizes, -1)])
        t = self.mean.shape[0]
        by_target = outputs.unflatten(-1, (outputs.shape[-1] // t, t)).transpose(-1, -2)
        p, std = self._probabilities(by_target)
        return Decoded(p[..., 1], None, None if std is None else std[..., 1])

    def _decode_numbers(self, outputs: Tensor, task: Regression) -> Decoded:
        first, *others = outputs.split(self.mean.shape[0], -1)
        values = first * self.scale + self.mean
        if task.loss_function.spread is None:
            return Decoded(values)
        spread = [_softplus(o) for o in others]
        if task.loss == "mve":
            return Decoded(values, None, self.scale * (spread[0] + MIN_VARIANCE).sqrt())
        if task.loss == "quantile":
            below, above = (self.scale * s for s in spread)
            std = (below + above) / (2 * normal_quantile(1 - task.alpha / 2))
            return Decoded(values, torch.cat([values - below, values + above], -1), std)
        nu, alpha_minus_one, beta = (s + MIN_VARIANCE for s in spread)
        aleatoric = beta / alpha_minus_one
        total = aleatoric + aleatoric / nu
        return Decoded(values, None, self.scale * total.sqrt(), aleatoric / nu / total)

    def _probabilities(self, outputs: Tensor) -> tuple[Tensor, Tensor | None]:
        """The probabilities of the classes of a target and their standard deviations, (..., C)."""
        if self.task.loss == "dirichlet":
            a = 1 + _softplus(outputs)
            total = a.sum(-1, keepdim=True)
            p = a / total
            return p, (p * (1 - p) / (total + 1)).sqrt()
        if self.task.loss == "bce":
            p = outputs.sigmoid()
            return torch.cat([1 - p, p], -1), None
        return outputs.softmax(-1), None

    def _combine(self, members: Sequence[Decoded]) -> Decoded:
        """`combine_members`: the mean of the models, with its standard deviation."""
        mean = members[0]._replace(std=None, epistemic_share=None)
        if len(members) > 1:
            distributions = [m.distribution for m in members if m.distribution is not None]
            distribution = torch.stack(distributions).mean(0) if distributions else None
            if isinstance(self.task, Multiclass) and distribution is not None:
                mean = _of_classes([(p, None) for p in self._by_target(distribution)])
            else:
                mean = Decoded(torch.stack([m.values for m in members]).mean(0), distribution)
        if self.method == NONE:
            return mean
        variances = [self._variance(m) for m in members if m.std is not None]
        variance = torch.stack(variances).mean(0) if variances else torch.zeros_like(mean.values)
        if self.method == ENSEMBLE:
            values = torch.stack([self._member_values(m, mean) for m in members])
            variance = variance + ((values - values.mean(0)) / self.scale).square().mean(0)
        return mean._replace(std=self.scale * variance.sqrt())

    def _variance(self, member: Decoded) -> Tensor:
        """The variance that a model itself predicts, or the part that the method requests, of scaled targets."""
        assert member.std is not None
        _, part = methods_of_losses().get(self.method, ("", "total"))
        share, variance = member.epistemic_share, (member.std / self.scale).square()
        if share is None or part == "total":
            return variance
        return variance * (share if part == "epistemic" else 1 - share)

    def _member_values(self, member: Decoded, mean: Decoded) -> Tensor:
        """`Task.member_values`: of classes, the probabilities that a model gives to those of the ensemble."""
        if not isinstance(self.task, Multiclass) or member.distribution is None:
            return member.values
        chosen = mean.values.long().unbind(-1)
        parts = zip(self._by_target(member.distribution), chosen, strict=True)
        return torch.cat([p.gather(-1, k.unsqueeze(-1)) for p, k in parts], -1)

    def _by_target(self, distribution: Tensor) -> Sequence[Tensor]:
        return distribution.split([len(names) for names in self.task.classes], -1)

    def _calibrate(self, decoded: Decoded) -> Decoded:
        """`apply_calibration`, by the default method of the model."""
        calibration = self.calibration
        if calibration is None or calibration.method not in (ZSCALING, ISOTONIC):
            return decoded
        if isinstance(self.task, Regression):
            z = [scores["z"] for scores in calibration.scores]
            factor = [math.sqrt(np.mean(v**2)) if calibration.method == ZSCALING else float(np.std(v)) for v in z]
            return decoded if decoded.std is None else decoded._replace(std=decoded.std * _constant(factor))
        if isinstance(self.task, Multiclass) and decoded.distribution is not None:
            parts = zip(self._by_target(decoded.distribution), calibration.scores, strict=True)
            return _of_classes([(_isotonic(p, scores), None) for p, scores in parts])._replace(std=decoded.std)
        columns = zip(decoded.values.unbind(-1), calibration.scores, strict=True)
        p = [_isotonic(torch.stack([1 - p, p], -1), scores)[..., 1] for p, scores in columns]
        return decoded._replace(values=torch.stack(p, -1))

    def _inverse_transform(self, decoded: Decoded) -> Decoded:
        """`TargetScaler.inverse_transform`."""
        if not any(self.transforms):
            return decoded
        columns = [*zip(decoded.values.unbind(-1), self.transforms, strict=True)]
        values = torch.stack([t if f is None else _inverse(f, t) for t, f in columns], -1)
        std, distribution = decoded.std, decoded.distribution
        if std is not None:
            slopes = [torch.ones_like(t) if f is None else _slope(f, t) for t, f in columns]
            std = std * torch.stack(slopes, -1)
        if distribution is not None:
            low, high = (ends.unbind(-1) for ends in distribution.chunk(2, -1))
            pairs = [_inverse_ends(f, *ends) for *ends, f in zip(low, high, self.transforms, strict=True)]
            distribution = torch.stack([*(a for a, _ in pairs), *(b for _, b in pairs)], -1)
        return Decoded(values, distribution, std)


def _of_classes(targets: Sequence[tuple[Tensor, Tensor | None]]) -> Decoded:
    """The most probable class of each target, all probabilities, and the standard deviation of that of the class."""
    chosen = [p.argmax(-1, keepdim=True) for p, _ in targets]
    stds = [std.gather(-1, k) for (_, std), k in zip(targets, chosen, strict=True) if std is not None]
    values = torch.cat(chosen, -1).to(torch.float64)
    return Decoded(values, torch.cat([p for p, _ in targets], -1), torch.cat(stds, -1) if stds else None)


def _isotonic(p: Tensor, scores: Scores) -> Tensor:
    """The calibrated probabilities of the classes of a target, (..., C)."""
    classes = enumerate(p.unbind(-1))
    mapped = torch.stack([_interpolate(x, scores[f"x{c}"], scores[f"y{c}"]) for c, x in classes], -1)
    total = mapped.sum(-1, keepdim=True)
    return torch.where(total > 0, mapped / torch.where(total > 0, total, 1.0), p)


def _inverse(f: TargetTransform, t: Tensor) -> Tensor:
    if f.name == LOG10:
        return 10.0**t
    if f.name == LOG1P:
        return t.exp() - 1
    if f.name == NEG_LOG10_MOLAR:
        return 10.0 ** (-t - math.log10(MOLAR[f.unit]))
    return _interpolate(t, f.scores, f.values)


def _slope(f: TargetTransform, t: Tensor) -> Tensor:
    if f.name == LOG1P:
        return t.exp()
    if f.name in (LOG10, NEG_LOG10_MOLAR):
        return math.log(10) * _inverse(f, t)
    if len(f.values) < 2:
        return torch.zeros_like(t)
    slopes = _constant(np.diff(f.values) / np.diff(f.scores))
    return slopes[_count(torch.gt, t, f.scores).sub(1).clamp(0, len(slopes) - 1)]


def _inverse_ends(f: TargetTransform | None, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """The lower and the upper quantile of one target."""
    if f is None:
        return low, high
    ends = _inverse(f, low), _inverse(f, high)
    return ends if f.increasing else (ends[1], ends[0])


def _interpolate(x: Tensor, xs: Sequence[float] | np.ndarray, ys: Sequence[float] | np.ndarray) -> Tensor:
    """`np.interp`: linear between the knots, constant beyond the first and the last."""
    knots, values = _constant(xs), _constant(ys)
    if len(knots) == 1:
        return torch.zeros_like(x) + values[0]
    j = _count(torch.ge, x, xs).sub(1).clamp(0, len(knots) - 2)
    steps = np.diff(xs)
    slopes = _constant(np.divide(np.diff(ys), steps, out=np.zeros_like(steps), where=steps > 0))
    inner = values[j] + (x - knots[j]) * slopes[j]
    return torch.where(x >= knots[-1], values[-1], torch.where(x < knots[0], values[0], inner))


def _count(compare: Callable[[Tensor, Tensor], Tensor], x: Tensor, knots: Sequence[float] | np.ndarray) -> Tensor:
    """The number of knots for which `compare` is true."""
    return compare(x.unsqueeze(-1), _constant(knots)).to(torch.int64).sum(-1)


def _softplus(x: Tensor) -> Tensor:
    """log(1 + e^x), of operations that ONNX Runtime has in float64."""
    return x.clamp_min(0) + (1 + (-x.abs()).exp()).log()


def _constant(numbers: Sequence[float] | np.ndarray) -> Tensor:
    return torch.as_tensor(np.asarray(numbers, dtype=np.float64))
