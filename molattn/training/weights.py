"""The weights of a model side by side in one tensor, and their running average.

A small model has seventy weights of a few thousand numbers: what an optimizer does to each one takes longer to call
than to compute.
"""

from collections.abc import Sequence
from copy import deepcopy

import torch
from torch import Tensor, nn


class SideBySide:
    """The weights of a model as views of one tensor for each of their types, and their gradients likewise.

    The model is the same as before, and so is its `state_dict`; an optimizer of `flat` moves all of it at once.
    Before every gradient, `zero_grad`. Weights that need no gradient stay as they are.

    Args:
        model: on its device.

    Attributes:
        flat: one for each type.
        gradients: theirs.
    """

    def __init__(self, model: nn.Module):
        self.weights = [w for w in model.parameters() if w.requires_grad]
        self.gradients: list[Tensor] = []
        self._gradients: list[tuple[nn.Parameter, Tensor]] = []
        self.flat = [self._join(dtype) for dtype in dict.fromkeys(w.dtype for w in self.weights)]

    def _join(self, dtype: torch.dtype) -> nn.Parameter:
        weights = [w for w in self.weights if w.dtype == dtype]
        flat = nn.Parameter(torch.cat([w.detach().flatten() for w in weights]))
        gradient = torch.zeros_like(flat)
        self.gradients.append(gradient)
        self._gradients.append((flat, gradient))
        start = 0
        for w in weights:
            end = start + w.numel()
            w.data = flat.data[start:end].view_as(w)
            self._gradients.append((w, gradient[start:end].view_as(w)))
            start = end
        return flat

    def zero_grad(self) -> None:
        """All gradients are zero, and those of the weights are parts of those of `flat`."""
        for gradient in self.gradients:
            gradient.zero_()
        for w, gradient in self._gradients:
            if w.grad is not gradient:  # somebody has set it to None
                w.grad = gradient

    def part(self) -> None:
        """Give each weight memory of its own again, and no gradient."""
        for w in self.weights:
            w.data, w.grad = w.data.clone(), None


class RunningAverage(nn.Module):
    """The running average of the weights of a model, step by step: what is validated and kept.

    a <- d a + (1 - d) w,    d = min(decay, t / (t + 9)) after t steps

    With the full decay from the first step on, a short training would mostly average its random start.

    Args:
        model: that is trained; its buffers are copied as they are.
        decay: the most that d becomes; 0 keeps the weights themselves.

    Attributes:
        module: the same model with the averaged weights.
        n_averaged: t.
    """

    n_averaged: Tensor

    def __init__(self, model: nn.Module, decay: float):
        super().__init__()
        self.module, self.decay = deepcopy(model), decay
        self.register_buffer("n_averaged", torch.tensor(0))

    def follow(self, model: nn.Module, weights: Sequence[Tensor]) -> None:
        """Average the flat `weights` of `model` from now on; both are on their device."""
        self._averaged = [flat.data for flat in SideBySide(self.module).flat]
        self._weights = [w.detach() for w in weights]
        self._copied = list(zip(self.module.buffers(), model.buffers(), strict=True))

    @torch.no_grad()
    def update(self) -> None:
        """One more step of the model is over."""
        steps = int(self.n_averaged)
        share = 1 - min(self.decay, steps / (steps + 9))
        for averaged, weights in zip(self._averaged, self._weights, strict=True):
            averaged.lerp_(weights, share)
        for averaged, buffer in self._copied:
            averaged.copy_(buffer)
        self.n_averaged += 1
