"""Validate a checkpoint against the training that resumes from it.

Both have the same settings, so all names, types and sizes must be equal. If they differ, the checkpoint is damaged or
was changed, and the message of the ValidationError names the place.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from molattn.data.schema import ValidationError, mismatch
from molattn.models.tensor_file import TensorSpec, check_tensor_specs


def check_tensors(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    """Raise ValidationError unless both have the same names, dtypes and shapes.

    NaN is allowed: a training that diverged can be resumed, and reports it at its end.
    """
    check_tensor_specs(
        *({name: TensorSpec(x.dtype, tuple(x.shape)) for name, x in xs.items()} for xs in (found, expected))
    )
    for name, x in found.items():
        # Integer tensors of a training are counts, such as of steps, or indices.
        if not x.is_floating_point() and bool((x < 0).any()):
            raise ValidationError(f"the tensor {name!r} has the negative count {int(x.min())}")


def check_structure(found: Any, expected: Any, place: str) -> None:
    """Raise ValidationError unless plain values have the types, keys and lengths of `expected`, with finite numbers."""
    if isinstance(expected, Mapping):
        if not isinstance(found, Mapping) or found.keys() != expected.keys():
            raise ValidationError(f"{place} does not have the fields {', '.join(expected)}")
        for key, value in expected.items():
            check_structure(found[key], value, f"{place}.{key}")
    elif isinstance(expected, Sequence) and not isinstance(expected, str):
        if not isinstance(found, Sequence) or len(found) != len(expected):
            raise ValidationError(f"{place} does not have {len(expected)} values")
        for i, value in enumerate(expected):
            check_structure(found[i], value, f"{place}[{i}]")
    elif isinstance(expected, int | float) and not isinstance(expected, bool):
        same_type = type(found) is type(expected) or (type(found) is int and type(expected) is float)
        if not same_type or not math.isfinite(found) or abs(found) > 1e15:
            raise mismatch(place, found, "a whole number" if type(expected) is int else "a finite number")
    elif found != expected:
        raise mismatch(place, found, repr(expected))


# Settings of the implementation, which may differ between machines.
_IMPLEMENTATION = ("foreach", "fused", "capturable")


def validated_optimizer_state(
    groups: Sequence[dict[str, Any]], tensors: Mapping[str, Tensor], optimizer: torch.optim.Optimizer
) -> dict[str, Any]:
    """A state for `optimizer.load_state_dict`, from its parameter groups and its tensors, named INDEX.NAME.

    Only the learning rate may differ from that of the optimizer. Settings of the implementation, and settings that the
    checkpoint lacks, are taken from the optimizer.

    Raises:
        ValidationError: the groups or tensors do not match the optimizer.
    """
    expected_groups = optimizer.state_dict()["param_groups"]
    for group, expected in zip(groups, expected_groups, strict=True):
        # An older torch may have saved fewer settings.
        group.update({key: expected[key] for key in expected if key in _IMPLEMENTATION or key not in group})
    check_structure(groups, expected_groups, "optimizer")
    settings = []
    for i, (group, expected) in enumerate(zip(groups, expected_groups, strict=True)):
        group = {k: tuple(v) if isinstance(v, list) and k != "params" else v for k, v in group.items()}
        for key, value in expected.items():
            if key != "lr" and group[key] != value:
                raise mismatch(f"optimizer[{i}].{key}", group[key], repr(value))
        if float(group["lr"]) < 0:  # pyright: ignore[reportArgumentType]
            raise mismatch(f"optimizer[{i}].lr", group["lr"], "a number of at least 0")
        settings.append(group)
    weights = [w for group in optimizer.param_groups for w in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for name, x in tensors.items():
        index, _, key = name.partition(".")
        if not index.isdecimal() or not int(index) < len(weights):
            raise ValidationError(f"the tensor 'optimizer.{name}' belongs to no weight")
        state.setdefault(int(index), {})[key] = x
    for index, moments in state.items():
        w = weights[index]
        moment = torch.zeros(w.shape, dtype=w.dtype)
        check_tensors(moments, {"step": torch.tensor(0.0), "exp_avg": moment, "exp_avg_sq": moment})
        if moments["step"] < 0 or (moments["exp_avg_sq"] < 0).any():
            raise ValidationError(f"the tensors 'optimizer.{index}' have a negative number")
    return {"state": state, "param_groups": settings}
