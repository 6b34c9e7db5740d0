"""Selects the implementation of each operation, by its arguments and the allowed backends.

| backend     | what it is                                                                                      |
|-------------|-------------------------------------------------------------------------------------------------|
| `compiled`  | C of `molattn/kernels/csrc`, from the wheel or built at first use; float32 on the CPU           |
| `chunked`   | torch's operations, a few graphs at a time, with a gradient written by hand                     |
| `fused`     | `torch.nn.functional.scaled_dot_product_attention`                                              |
| `reference` | the equations of `molattn.attention` and torch's functions; all inputs, on any device            |

Each operation uses the first of its implementations that is allowed and supports the arguments; `OPERATIONS` lists them
in order. The results differ only by rounding.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, NamedTuple

from molattn.errors import UsageError

BACKENDS = ("compiled", "chunked", "fused", "reference")
"""Names of the backends: this library's C, torch in chunks of graphs, torch's fused attention, and the reference."""
BACKEND_VARIABLE = "MOLATTN_BACKEND"
"""The environment variable with the allowed backends, separated by commas."""


class Implementation(NamedTuple):
    """An implementation of an operation.

    Attributes:
        run: takes the operation's arguments.
        unsupported_reason: takes the same arguments; returns why they are not supported, empty if they are. None if it
            supports all arguments.
    """

    run: Callable[..., Any]
    unsupported_reason: Callable[..., str] | None


class Call(NamedTuple):
    """A call of an operation, as recorded by `record_backends`.

    Attributes:
        operation: its name in `OPERATIONS`.
        backend: the one of `BACKENDS` that ran.

    >>> import torch
    >>> from molattn.attention import attend, record_backends
    >>> with record_backends() as calls:
    ...     output = attend(*torch.randn(3, 2, 5, 4))
    >>> calls
    [Call(operation='attention', backend='fused')]
    """

    operation: str
    backend: str


class Operation:
    """An operation with several implementations, tried in the order in which they were added.

    Args:
        name: its key in `OPERATIONS`, to which the new operation is added.

    Attributes:
        implementations: by backend.

    >>> from molattn.attention import OPERATIONS
    >>> attention = OPERATIONS["attention"]
    >>> list(attention.implementations)
    ['compiled', 'chunked', 'fused', 'reference']
    """

    def __init__(self, name: str):
        self.name = name
        self.implementations: dict[str, Implementation] = {}
        OPERATIONS[name] = self

    def add(self, backend: str, run: Callable[..., Any], unsupported_reason: Callable[..., str] | None = None) -> None:
        """Append an implementation.

        Args:
            backend: one of `BACKENDS`.
            run: takes the operation's arguments.
            unsupported_reason: takes the same arguments; returns why they are not supported, empty if they are. None if
                all arguments are supported.

        Raises:
            AssertionError: an unknown backend.
        """
        assert backend in BACKENDS
        self.implementations[backend] = Implementation(run, unsupported_reason)

    def __call__(self, *arguments: Any) -> Any:
        """Run the first implementation that is allowed and supports the arguments.

        Raises:
            RuntimeError: there is none.
        """
        for backend, (run, unsupported_reason) in self.implementations.items():
            if (_allowed is None or backend in _allowed or backend == "reference") and (
                unsupported_reason is None or not unsupported_reason(*arguments)
            ):
                if _recorded is not None:
                    _recorded.append(Call(self.name, backend))
                return run(*arguments)
        raise RuntimeError(f"{self.name} has no implementation for these arguments")

    def unsupported_reason(self, backend: str, *arguments: Any) -> str:
        """Why a backend does not run for these arguments; empty if it is allowed and supports them.

        Args:
            backend: one of `BACKENDS`; "reference" is always allowed.
            arguments: those of the operation.

        Raises:
            KeyError: the backend is allowed, but the operation has no implementation for it.
        """
        if not (_allowed is None or backend in _allowed or backend == "reference"):
            return f"only these backends are allowed: {', '.join(sorted(_allowed))}"
        unsupported_reason = self.implementations[backend].unsupported_reason
        return "" if unsupported_reason is None else unsupported_reason(*arguments)


OPERATIONS: dict[str, Operation] = {}
"""The operations by name. Importing a module that implements some adds them."""


def _validate_backends(names: tuple[str, ...], source: str) -> frozenset[str]:
    unknown = [name for name in names if name not in BACKENDS]
    if unknown or not names:
        named = repr(unknown[0]) if unknown else "no backend"
        raise UsageError(f"{source} names {named}: choose among {', '.join(BACKENDS)}")
    return frozenset(names)


def _backends_from_environment() -> frozenset[str] | None:
    names = tuple(name for part in os.environ.get(BACKEND_VARIABLE, "").split(",") if (name := part.strip()))
    return _validate_backends(names, BACKEND_VARIABLE) if names else None


_default = _backends_from_environment()
_allowed: frozenset[str] | None = _default
"""The allowed backends; None if all are."""
_recorded: list[Call] | None = None
"""The list of the innermost `record_backends`; None outside of it."""

# The contexts that are open, in the order in which they were entered: threads may leave them in another order. Not a
# ContextVar, which torch.compile cannot trace.
_open_backends: list[frozenset[str]] = []
_open_records: list[list[Call]] = []
_lock = Lock()


@contextmanager
def backend(*names: str) -> Iterator[None]:
    """Allow only these backends, as `torch.nn.attention.sdpa_kernel` does for torch's attention.

    With "reference", attention is computed as score, normalizer and weighted sum. If none of the named backends
    supports the arguments, the reference runs. It applies to all threads of the process and can be nested: the context
    that was entered last applies. Outside of them, the environment variable MOLATTN_BACKEND, names separated by commas,
    sets the default.

    Args:
        names: of "compiled", "chunked", "fused" and "reference".

    Raises:
        UsageError: a name is unknown, or there is none.

    >>> import torch
    >>> from molattn.attention import attend, backend, record_backends
    >>> q, k, v = torch.randn(3, 2, 5, 4)
    >>> with record_backends() as calls:
    ...     fast = attend(q, k, v)
    ...     with backend("reference"):
    ...         slow = attend(q, k, v)
    >>> [call.backend for call in calls], torch.allclose(fast, slow, atol=1e-6)
    (['fused', 'reference'], True)
    """
    global _allowed
    allowed = _validate_backends(names, "backend")
    with _lock:
        _open_backends.append(allowed)
        _allowed = allowed
    try:
        yield
    finally:
        with _lock:
            _remove(_open_backends, allowed)
            _allowed = _open_backends[-1] if _open_backends else _default


@contextmanager
def record_backends() -> Iterator[list[Call]]:
    """A list of the operations called within the context, in order, with the backends that ran.

    Calls of `attend` with `return_weights`, which always compute the reference, are not recorded. Within a nested
    context only the inner list grows.

    >>> import torch
    >>> from molattn.attention import attend, record_backends
    >>> q, k, v = torch.randn(3, 2, 5, 4)
    >>> with record_backends() as calls:
    ...     plain = attend(q, k, v)
    ...     sparse = attend(q, k, v, normalizer="sparsemax")
    >>> [call.backend for call in calls]
    ['fused', 'reference']
    """
    global _recorded
    calls: list[Call] = []
    with _lock:
        _open_records.append(calls)
        _recorded = calls
    try:
        yield calls
    finally:
        with _lock:
            _remove(_open_records, calls)
            _recorded = _open_records[-1] if _open_records else None


def _remove(contexts: list[Any], context: object) -> None:
    """Remove `context` from a list, compared by identity: others in it may be equal."""
    del contexts[next(i for i, other in enumerate(contexts) if other is context)]
