"""The parameters of a model as views of one flat tensor, and their exponential moving average.

A small model has seventy parameter tensors of a few thousand numbers. For tensors that small, calling the operations of
the optimizer takes longer than computing them.
"""

from collections.abc import Container, Mapping, Sequence
from copy import deepcopy
from types import MappingProxyType

import torch
from torch import Tensor, nn

NO_FACTORS: Mapping[str, float] = MappingProxyType({})


class FlatParameters:
    """The parameters of a model as views of a few flat parameters, and likewise their gradients.

    The model and its `state_dict` are unchanged; an optimizer of `flat` updates all parameters at once. Call
    `zero_grad` before every backward pass. Parameters that need no gradient stay separate.

    Args:
        model: on its device.
        factors: the factor on the learning rate of each parameter, by its name; 1 for the others.
        frozen: the names of parameters that need no gradient until `unfreeze`. Theirs are flat parameters of their own,
            without a gradient, which an optimizer skips.

    Attributes:
        flat: the flat parameters, one for each factor and dtype.
        factors: the factor of each flat parameter.
        gradients: the gradient of each that is not frozen.
    """

    def __init__(self, model: nn.Module, factors: Mapping[str, float] = NO_FACTORS, frozen: Container[str] = ()):
        groups: dict[tuple[bool, float, torch.dtype], list[nn.Parameter]] = {}
        for name, w in model.named_parameters():
            if w.requires_grad or name in frozen:
                groups.setdefault((name in frozen, factors.get(name, 1.0), w.dtype), []).append(w)
        self.weights = [w for weights in groups.values() for w in weights]
        self.gradients: list[Tensor] = []
        self._gradients: list[tuple[nn.Parameter, Tensor]] = []
        self._frozen: list[tuple[nn.Parameter, list[nn.Parameter]]] = []
        self.flat = [self._join(weights, is_frozen) for (is_frozen, *_), weights in groups.items()]
        self.factors = [factor for _, factor, _ in groups]

    def _join(self, weights: list[nn.Parameter], is_frozen: bool) -> nn.Parameter:
        flat = nn.Parameter(torch.cat([w.detach().flatten() for w in weights]))
        start = 0
        for w in weights:
            w.data = flat.data[start : start + w.numel()].view_as(w)
            start += w.numel()
        if is_frozen:
            self._frozen.append((flat, weights))
        else:
            self._add_gradients(flat, weights)
        return flat

    def _add_gradients(self, flat: nn.Parameter, weights: Sequence[nn.Parameter]) -> None:
        gradient = torch.zeros_like(flat)
        self.gradients.append(gradient)
        self._gradients.append((flat, gradient))
        start = 0
        for w in weights:
            self._gradients.append((w, gradient[start : start + w.numel()].view_as(w)))
            start += w.numel()

    def unfreeze(self) -> None:
        """Let the frozen parameters have gradients from the next `zero_grad` on."""
        for flat, weights in self._frozen:
            for w in weights:
                w.requires_grad_(True)
            self._add_gradients(flat, weights)
        self._frozen = []

    def zero_grad(self) -> None:
        """Set all gradients to zero, as views of the flat gradients."""
        for gradient in self.gradients:
            gradient.zero_()
        for w, gradient in self._gradients:
            if w.grad is not gradient:  # it has been set to None, for example by `Module.zero_grad`
                w.grad = gradient

    def unflatten(self) -> None:
        """Give each parameter memory of its own again, and no gradient."""
        for w in self.weights:
            w.data, w.grad = w.data.clone(), None


class ExponentialMovingAverage(nn.Module):
    """The exponential moving average of the weights of a model, which is validated and saved.

    a <- d a + (1 - d) w,    d = min(decay, t / (t + 9)) after t steps

    With the full decay from the first step on, a short training would mostly average its random initialization.

    Args:
        model: the model that is trained; its buffers are copied without averaging.
        decay: the maximum of d; 0 uses the weights without averaging.

    Attributes:
        module: a copy of the model with the averaged weights.
        n_averaged: t.
    """

    n_averaged: Tensor

    def __init__(self, model: nn.Module, decay: float):
        super().__init__()
        self.module, self.decay = deepcopy(model), decay
        self.register_buffer("n_averaged", torch.tensor(0))

    def attach(
        self,
        model: nn.Module,
        weights: Sequence[Tensor],
        factors: Mapping[str, float] = NO_FACTORS,
        frozen: Container[str] = (),
    ) -> None:
        """Average the flat `weights` of `model` from now on; this module and `model` are already on their device.

        factors, frozen: as for the `FlatParameters` of `model`. The average of a frozen weight is the weight itself.
        """
        self._averaged = [flat.data for flat in FlatParameters(self.module, factors, frozen).flat]
        self._weights = [w.detach() for w in weights]
        self._copied = list(zip(self.module.buffers(), model.buffers(), strict=True))

    @torch.no_grad()
    def update(self) -> None:
        """Update the average after a step of the optimizer."""
        steps = int(self.n_averaged)
        step_size = 1 - min(self.decay, steps / (steps + 9))
        for averaged, weights in zip(self._averaged, self._weights, strict=True):
            averaged.lerp_(weights, step_size)
        for averaged, buffer in self._copied:
            averaged.copy_(buffer)
        self.n_averaged += 1
