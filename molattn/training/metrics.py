"""How good predictions are, in the targets' own units, never standardised."""

import numpy as np
import torch
from torchmetrics.functional.regression import mean_absolute_error, mean_squared_error, r2_score

METRICS = ("rmse", "mae", "r2")


def regression_metrics(true: np.ndarray, predicted: np.ndarray) -> dict[str, float | None]:
    """RMSE, MAE and R2 of one target over the molecules that have a label.

    RMSE = sqrt(mean (y - p)^2);  MAE = mean |y - p|;  R2 = 1 - sum (y - p)^2 / sum (y - mean y)^2

    Shapes: (n,) and (n,), NaN in `true` where the label is missing. RMSE and MAE have the target's unit; each is
    None when no label is there, R2 also with fewer than two labels or when all are equal.
    """
    known = np.isfinite(true)
    y, p = (torch.from_numpy(np.asarray(x, dtype=np.float64)[known]) for x in (true, predicted))
    if not len(y):
        return dict.fromkeys(METRICS)
    defined = len(y) > 1 and bool((y != y[0]).any())
    return {
        "rmse": mean_squared_error(p, y, squared=False).item(),
        "mae": mean_absolute_error(p, y).item(),
        "r2": r2_score(p, y).item() if defined else None,
    }
