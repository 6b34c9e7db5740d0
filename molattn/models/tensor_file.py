"""`model.safetensors`: tensors that are read only if they have the names, the types and the shapes that they must."""

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

from molattn.data.schema import Misfit, strict_json
from molattn.errors import short_repr

LARGEST_HEADER = 16 * 2**20
LARGEST_FILE = 2 * 2**30
"""Bytes of a file of weights; the models of molattn take one or two million."""

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


class Form(NamedTuple):
    """What a tensor is, without its numbers."""

    dtype: torch.dtype
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{str(self.dtype).removeprefix('torch.')} {self.shape}"


def forms_of(path: Path) -> dict[str, Form]:
    """The names and the forms of the tensors in a file, which is as long as they say; nothing else of it is read.

    Raises:
        Misfit: it is no such file.
    """
    size = path.stat().st_size
    if size > LARGEST_FILE:
        raise Misfit(f"it has {size:,} bytes, and the weights of a model have {LARGEST_FILE:,} at most")
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(LARGEST_HEADER, size - 8):
            raise Misfit("it does not begin as a safetensors file does")
        try:
            header = strict_json(file.read(length))
            found = {name: _form(name, told) for name, told in header.items() if name != "__metadata__"}
        except Misfit:
            raise
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise Misfit("its list of tensors cannot be read") from error
    wanted = 8 + length + sum(_bytes(form) for form in found.values())
    if wanted != size:
        raise Misfit(f"it has {size:,} bytes, and its list of tensors tells of {wanted:,}")
    return found


def _form(name: str, told: dict[str, Any]) -> Form:
    shape, dtype = told["shape"], told["dtype"]
    if dtype not in _TYPES:
        raise Misfit(f"the tensor {short_repr(name)} is {short_repr(dtype)}, a type that no model has")
    if len(shape) > 8 or not all(type(n) is int and 0 <= n <= LARGEST_FILE for n in shape):
        raise ValueError("no shape")
    return Form(_TYPES[dtype], tuple(shape))


def _bytes(form: Form) -> int:
    return math.prod(form.shape) * form.dtype.itemsize


def tensors_of(path: Path) -> tuple[dict[str, Tensor], str]:
    """The tensors of a file, and the checksum of its bytes.

    Raises:
        Misfit: it is damaged.
    """
    data = path.read_bytes()
    try:
        return load(data), hashlib.sha256(data).hexdigest()
    except (SafetensorError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise Misfit(f"its tensors cannot be read ({type(error).__name__})") from error


def check_forms(found: Mapping[str, Form], wanted: Mapping[str, Form]) -> None:
    """Misfit unless both have the same tensors of the same types and shapes."""
    for name, form in wanted.items():
        if name not in found:
            raise Misfit(f"the tensor {short_repr(name)} is missing")
        if found[name] != form:
            raise Misfit(f"the tensor {short_repr(name)} is {found[name]}, and that of the model is {form}")
    for name in found:
        if name not in wanted:
            raise Misfit(f"the model has no tensor {short_repr(name)}")


def check_finite(tensors: Mapping[str, Tensor]) -> None:
    """Misfit where one has a number that is not finite."""
    for name, x in tensors.items():
        # A sum is NaN or infinite if one of its numbers is; where it is for another reason each is looked at.
        if x.is_floating_point() and not math.isfinite(x.sum().item()) and not bool(torch.isfinite(x).all()):
            value = x[~torch.isfinite(x)].reshape(-1)[0].item()
            raise Misfit(f"the tensor {short_repr(name)} holds {value}, which is no finite number")


@contextmanager
def float32() -> Iterator[None]:
    """What is made within the block is float32, as in a model's file, whatever torch makes elsewhere by default."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(default)


@contextmanager
def at_most(numbers: int) -> Iterator[None]:
    """Misfit, before its memory is taken, for the tensor that brings those made within the block beyond so many."""
    with _Counting(numbers):
        yield


class _Counting(TorchFunctionMode):
    """Counts the numbers of new tensors."""

    def __init__(self, most: int):
        super().__init__()
        self.left = most

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _MAKERS:
            sizes = args[0] if args and isinstance(args[0], list | tuple) else args
            self.left -= math.prod(n for n in sizes if isinstance(n, int))
            if self.left < 0:
                raise Misfit("its settings ask for more weights than it has")
        return func(*args, **(kwargs or {}))


_MAKERS = frozenset((torch.empty, torch.zeros, torch.ones, torch.rand, torch.randn, torch.linspace, torch.arange))
