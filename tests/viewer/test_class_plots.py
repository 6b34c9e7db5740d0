"""Pictures of classifiers: drawn for any labels, and reproducible."""

import numpy as np
import pytest

from molattn.viewer import class_plot, confusion_plot
from tests.viewer.svg import assert_sound

SPLITS = {"train": np.arange(60), "val": np.arange(60, 80), "test": np.arange(80, 100)}
HOSTILE = "<script>&$x^$--></svg>\x00"


def _data() -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(0)
    true = (draw.random(100) < 0.4).astype(float)
    true[[3, 70, 90]] = np.nan
    return true, np.clip(0.3 * np.nan_to_num(true) + draw.random(100) * 0.7, 0, 1)


def test_a_class_plot_names_areas_and_is_reproducible() -> None:
    true, p = _data()
    picture = class_plot(true, p, SPLITS, name="active")
    assert_sound(picture)
    assert picture == class_plot(true, p, SPLITS, name="active")
    assert "test (19)" in picture.svg
    assert "train" not in class_plot(true, p, {"test": SPLITS["test"]}, name="active").svg


@pytest.mark.parametrize("value", [0.0, 1.0, np.nan])
def test_a_split_of_one_class_is_noted_and_the_others_are_drawn(value: float) -> None:
    true, p = _data()
    true[80:] = value
    picture = class_plot(true, p, SPLITS, name="active")
    assert_sound(picture)
    assert ("test: no labels" if np.isnan(value) else "test: one class only") in picture.svg


def test_a_confusion_plot_counts_and_accepts_missing_labels() -> None:
    true = np.array([0.0, 1.0, 2.0, 2.0, np.nan])
    picture = confusion_plot(true, np.array([0.0, 1.0, 1.0, 2.0, 0.0]), ["a", "b", "c"], name="y")
    assert_sound(picture)
    assert "y: 4 test molecules" in picture.svg
    assert_sound(confusion_plot(np.full(3, np.nan), np.zeros(3), ["a", "b"], name="y"))
    assert_sound(confusion_plot(np.arange(50.0), np.arange(50.0), [f"class {i}" for i in range(50)], name="y"))


def test_hostile_names_are_written_as_text() -> None:
    true, p = _data()
    assert_sound(class_plot(true, p, SPLITS, name=HOSTILE))
    assert_sound(confusion_plot(np.array([0.0, 1.0]), np.array([0.0, 1.0]), [HOSTILE, "$b$"], name=HOSTILE))
