"""Standard deviations of numbers of any size: squares are 0 below 1e-162 and infinite above 1e154."""

import numpy as np


def power_of_two(x: np.ndarray) -> float:
    """The power of two by which finite numbers are divided, without rounding, so that the largest is below 1.

    It is 1 if all numbers are 0, or if there are none.

    >>> import numpy as np
    >>> from molattn.models.magnitude import power_of_two
    >>> power_of_two(np.array([3.0, -5.0]))
    8.0
    """
    finite = np.abs(x[np.isfinite(x)])
    largest = float(finite.max()) if finite.size else 0.0
    # 2^-1022 is the smallest normal number; 2^1024 would be infinite.
    return float(np.ldexp(1.0, np.clip(np.frexp(largest)[1], -1022, 1023))) if largest else 1.0


def standard_deviation(x: np.ndarray) -> float:
    """sqrt(mean (x - mean x)^2), which is 0 only if all numbers are equal; 0 for no numbers."""
    if not len(x) or not (x != x[0]).any():
        return 0.0
    scale = power_of_two(x)
    return scale * float(np.std(x / scale))
