# pyright: strict, reportUnnecessaryTypeIgnoreComment=true
"""What a user of the package writes, checked by pyright in strict mode, and run."""

from pathlib import Path

import numpy as np
import pytest

import molattn
from molattn.errors import UsageError

ASPIRIN = "CC(=O)Oc1ccccc1C(=O)O"


def test_train_predict_and_explain(tmp_path: Path) -> None:
    run = molattn.train(
        "esol", output_dir=tmp_path / "run", epochs=1, seed=1, hidden_dim=16, num_layers=1, num_heads=2, quiet=True
    )
    folder: Path = run.folder
    predictor = molattn.load(folder)
    values: np.ndarray = predictor.predict([ASPIRIN, "CCO"])
    mean, std = predictor.predict([ASPIRIN], return_std=True, uncertainty_method="dropout")
    attention = predictor.attention(ASPIRIN)
    weights: np.ndarray = attention.weights
    best: float = max(attribution.values.max() for attribution in predictor.attributions([ASPIRIN, "CCO"]))
    vectors: np.ndarray = predictor.embed([ASPIRIN])
    counts = predictor.predict_table(_table(tmp_path), tmp_path / "out.csv")
    rows: int = counts.rows
    assert values.shape == (2,) and len(mean) == len(std) == 1 and np.isfinite(best) and len(vectors) == 1
    assert weights.shape[-1] == 13 and rows == 2
    one = predictor.attributions(ASPIRIN)
    assert len(one.values) == 13


def test_a_misspelled_option_is_an_error_of_the_type_checker_and_of_the_call() -> None:
    with pytest.raises(UsageError, match="did you mean 'epochs'"):
        molattn.train("esol", epoch=5)  # pyright: ignore[reportCallIssue]
    with pytest.raises(UsageError, match="takes a whole number"):
        molattn.train("esol", epochs="five")  # pyright: ignore[reportArgumentType]


def _table(folder: Path) -> Path:
    path = folder / "in.csv"
    path.write_text("smiles\nCCO\nCC\n")
    return path
