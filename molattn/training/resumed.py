"""Whether what a checkpoint says may be gone on from: held against the training that has just been made anew.

A checkpoint has the names, the types and the sizes of the training that wrote it, which was the same. What has others
is damaged or was changed, and ValidationError says where.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from molattn.data.schema import ValidationError, mismatch
from molattn.models.tensor_file import TensorSpec, check_tensor_specs


def check_tensors(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> None:
    """ValidationError unless both have the same names, types and shapes.

    A training that came to nothing goes on from NaN, and says so at its end.
    """
    check_tensor_specs(
        *({name: TensorSpec(x.dtype, tuple(x.shape)) for name, x in of.items()} for of in (found, wanted))
    )
    for name, x in found.items():
        # Whole numbers among weights are counts, such as of steps.
        if not x.is_floating_point() and bool((x < 0).any()):
            raise ValidationError(f"the tensor {name!r} counts {int(x.min())}")


def check_alike(found: Any, wanted: Any, place: str) -> None:
    """ValidationError unless plain values have the form of others: types, keys and lengths; numbers are finite."""
    if isinstance(wanted, Mapping):
        if not isinstance(found, Mapping) or found.keys() != wanted.keys():
            raise ValidationError(f"{place} has not the fields {', '.join(wanted)}")
        for key, value in wanted.items():
            check_alike(found[key], value, f"{place}.{key}")
    elif isinstance(wanted, Sequence) and not isinstance(wanted, str):
        if not isinstance(found, Sequence) or len(found) != len(wanted):
            raise ValidationError(f"{place} has not {len(wanted)} values")
        for i, value in enumerate(wanted):
            check_alike(found[i], value, f"{place}[{i}]")
    elif isinstance(wanted, int | float) and not isinstance(wanted, bool):
        fits = type(found) is type(wanted) or (type(found) is int and type(wanted) is float)
        if not fits or not math.isfinite(found) or abs(found) > 1e15:
            raise mismatch(place, found, "a whole number" if type(wanted) is int else "a finite number")
    elif found != wanted:
        raise mismatch(place, found, repr(wanted))


_HOW = ("foreach", "fused", "capturable")


def optimizer_state(
    groups: Sequence[dict[str, Any]], tensors: Mapping[str, Tensor], optimizer: torch.optim.Optimizer
) -> dict[str, Any]:
    """What `optimizer.load_state_dict` takes, from the settings of its groups and its tensors by INDEX.NAME.

    Only the learning rate may differ from what the optimizer has; how it computes is its own choice on this machine,
    and settings that the checkpoint does not have are those of this version of torch.

    Raises:
        ValidationError: they are not those of such an optimizer.
    """
    fresh = optimizer.state_dict()["param_groups"]
    for group, own in zip(groups, fresh, strict=True):
        # What an older torch did not know of is as this one has it.
        group.update({key: own[key] for key in own if key in _HOW or key not in group})
    check_alike(groups, fresh, "optimizer")
    settings = []
    for i, (group, own) in enumerate(zip(groups, fresh, strict=True)):
        group = {k: tuple(v) if isinstance(v, list) and k != "params" else v for k, v in group.items()}
        for key, value in own.items():
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
    for index, of_one in state.items():
        w = weights[index]
        moment = torch.zeros(w.shape, dtype=w.dtype)
        check_tensors(of_one, {"step": torch.tensor(0.0), "exp_avg": moment, "exp_avg_sq": moment})
        if of_one["step"] < 0 or (of_one["exp_avg_sq"] < 0).any():
            raise ValidationError(f"the tensors 'optimizer.{index}' have a number below 0")
    return {"state": state, "param_groups": settings}
