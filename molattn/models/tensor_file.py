"""`model.safetensors`: tensors, validated by name, type and shape before they are read."""

import hashlib
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor
from torch.overrides import TorchFunctionMode

from molattn.data.schema import ValidationError, parse_json
from molattn.errors import short_repr

MAX_HEADER_BYTES = 16 * 2**20
MAX_WEIGHTS_BYTES = 2 * 2**30
"""Maximum size of a file of weights; the models that molattn trains take one or two million bytes."""

_TYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}


class TensorSpec(NamedTuple):
    """The type and the shape of a tensor."""

    dtype: torch.dtype
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{str(self.dtype).removeprefix('torch.')} {self.shape}"


def read_tensor_specs(path: Path) -> dict[str, TensorSpec]:
    """The names and specs of the tensors in a file, from its header; the size of the file is validated against them.

    Raises:
        ValidationError: it is not a valid safetensors file.
    """
    size = path.stat().st_size
    if size > MAX_WEIGHTS_BYTES:
        raise ValidationError(f"it has {size:,} bytes, and the weights of a model have {MAX_WEIGHTS_BYTES:,} at most")
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(MAX_HEADER_BYTES, size - 8):
            raise ValidationError("it does not begin as a safetensors file does")
        try:
            header = parse_json(file.read(length))
            specs = {name: _tensor_spec(name, entry) for name, entry in header.items() if name != "__metadata__"}
        except ValidationError:
            raise
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValidationError("its list of tensors cannot be read") from error
    expected = 8 + length + sum(_num_bytes(spec) for spec in specs.values())
    if expected != size:
        raise ValidationError(f"it has {size:,} bytes, and its list of tensors requires {expected:,}")
    return specs


def _tensor_spec(name: str, entry: dict[str, Any]) -> TensorSpec:
    shape, dtype = entry["shape"], entry["dtype"]
    if dtype not in _TYPES:
        raise ValidationError(f"the tensor {short_repr(name)} is {short_repr(dtype)}, a type that no model has")
    if len(shape) > 8 or not all(type(n) is int and 0 <= n <= MAX_WEIGHTS_BYTES for n in shape):
        raise ValueError("invalid shape")
    return TensorSpec(_TYPES[dtype], tuple(shape))


def _num_bytes(spec: TensorSpec) -> int:
    return math.prod(spec.shape) * spec.dtype.itemsize


def read_tensors(path: Path) -> tuple[dict[str, Tensor], str]:
    """The tensors of a file, and the checksum of its bytes.

    Raises:
        ValidationError: it is damaged.
    """
    data = path.read_bytes()
    try:
        return load(data), hashlib.sha256(data).hexdigest()
    except (SafetensorError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise ValidationError(f"its tensors cannot be read ({type(error).__name__})") from error


def check_tensor_specs(found: Mapping[str, TensorSpec], expected: Mapping[str, TensorSpec]) -> None:
    """Raise ValidationError unless both have the same names, types and shapes."""
    for name, spec in expected.items():
        if name not in found:
            raise ValidationError(f"the tensor {short_repr(name)} is missing")
        if found[name] != spec:
            raise ValidationError(f"the tensor {short_repr(name)} is {found[name]}, and that of the model is {spec}")
    for name in found:
        if name not in expected:
            raise ValidationError(f"the model has no tensor {short_repr(name)}")


def check_finite(tensors: Mapping[str, Tensor]) -> None:
    """Raise ValidationError if a tensor has a number that is not finite."""
    for name, x in tensors.items():
        # The sum is faster to check. It is not finite if a number is not, or if it overflows: then check all numbers.
        if x.is_floating_point() and not math.isfinite(x.sum().item()) and not bool(torch.isfinite(x).all()):
            value = x[~torch.isfinite(x)].reshape(-1)[0].item()
            raise ValidationError(f"the tensor {short_repr(name)} holds {value}, which is not a finite number")


@contextmanager
def default_float32() -> Iterator[None]:
    """Make float32, the dtype of the weights in a file, the default dtype within the block."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(default)


class AllocationLimit(TorchFunctionMode):
    """A context that raises ValidationError before the tensors created in it have more than `max_numbers` elements."""

    def __init__(self, max_numbers: int):
        super().__init__()
        self.remaining = max_numbers

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _FACTORIES:
            sizes = args[0] if args and isinstance(args[0], list | tuple) else args
            self.remaining -= math.prod(n for n in sizes if isinstance(n, int))
            if self.remaining < 0:
                raise ValidationError("its settings require more weights than it has")
        return func(*args, **(kwargs or {}))


_FACTORIES = frozenset((torch.empty, torch.zeros, torch.ones, torch.rand, torch.randn, torch.linspace, torch.arange))
