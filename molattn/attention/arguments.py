"""What arguments may be: the sizes and probabilities of a layer."""

from numbers import Integral


def check_sizes(**sizes: int | None) -> None:
    """That every size is a whole number of at least 1; None is one that is not given.

    Raises:
        ValueError: one is not; with its name.
    """
    for name, size in sizes.items():
        if not isinstance(size, Integral | None):
            raise ValueError(f"{name} is a whole number, not {size}")
        if size is not None and size < 1:
            raise ValueError(f"{name} is at least 1, not {size}")


def check_dropout(p: float) -> None:
    """That a probability of dropping is from 0 to below 1: who drops everything learns nothing.

    Raises:
        ValueError: it is not.
    """
    if not 0 <= p < 1:
        raise ValueError(f"a probability of dropping is from 0 to below 1, not {p}")
