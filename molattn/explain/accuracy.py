"""Accuracy of attributions: how well they agree with the true contributions of the atoms, or with their signs."""

import numpy as np

MIN_EFFECT = 0.01
"""Smallest |effect| of an atom whose sign counts, as a fraction of the largest in its molecule."""


def attribution_accuracy(values: np.ndarray, true_contributions: np.ndarray) -> tuple[float, float, float]:
    """Kendall's tau-b, Pearson's r and the AUROC of the important atoms, of one molecule; see `MethodScores`.

    `true_contributions` must not be equal for all atoms. Values are rounded to five digits of the largest, so that
    equivalent atoms are ties despite rounding errors.
    """
    # Slow to import, and not needed without ground truth.
    from scipy.stats import kendalltau, pearsonr
    from sklearn.metrics import roc_auc_score

    v = _rounded(values)
    y = np.round(true_contributions, 4)
    magnitudes = np.abs(y)
    important = magnitudes > magnitudes.mean()
    # If all have the same absolute value, such as +1 and -1, all atoms are equally important.
    auroc = float(roc_auc_score(important, np.abs(v))) if important.any() and not important.all() else 0.5
    if np.ptp(v) == 0:
        return 0.0, 0.0, auroc
    tau, r = kendalltau(v, y).statistic, pearsonr(v, y).statistic  # pyright: ignore[reportAttributeAccessIssue]
    return float(tau), float(r), auroc


def sign_agreement(values: np.ndarray, effects: np.ndarray) -> float | None:
    """The fraction of the atoms of one molecule whose value has the sign of their effect; see `MethodScores.sign`.

    A value of 0 has the sign of no effect. None if all effects are 0.
    """
    magnitudes = np.abs(effects)
    if not magnitudes.max() > 0:
        return None
    counted = magnitudes > MIN_EFFECT * magnitudes.max()
    return float((np.sign(_rounded(values))[counted] == np.sign(effects)[counted]).mean())


def _rounded(values: np.ndarray) -> np.ndarray:
    """Values relative to the largest, to five digits."""
    largest = np.abs(values).max()
    return np.round(values / largest, 5) if largest > 0 else values
