import numpy as np
import pytest

from molattn.chem import tokenize
from molattn.errors import UsageError
from molattn.viewer import alignment
from tests.viewer.svg import SVG, assert_sound, cells, png_size, root

SOURCE, TARGET = tokenize("OC(=O)c1c(OC(C)=O)cccc1"), (*tokenize("CC(=O)Oc1ccccc1C(=O)O"), "end")


def weights(n, m):
    x = np.random.default_rng(0).random((n, m)) ** 4
    return x / x.sum(-1, keepdims=True)


@pytest.mark.parametrize("title", ["", "bahdanau", "$x_1$ <&> \x00"])
@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 30), (30, 1), (len(TARGET), len(SOURCE))])
def test_an_alignment_is_valid_and_reproducible_with_a_cell_per_pair_of_tokens(n, m, title):
    arguments = weights(n, m), (SOURCE * 2)[:m], (TARGET * 2)[:n], title
    picture = alignment(*arguments)
    assert_sound(picture)
    assert alignment(*arguments) == picture
    assert len(cells(picture)) == n * m


def test_rows_are_outputs_from_the_top_and_the_darker_the_larger_the_weight():
    w = weights(len(TARGET), len(SOURCE))
    picture = alignment(w, SOURCE, TARGET)
    light = np.array([sum(colour) for colour in cells(picture)])
    order = np.argsort(w.ravel(), kind="stable")
    assert (np.diff(light[order]) <= 0).all()
    assert light.min() < light.max()
    ids = [e.get("id", "") for e in root(picture).iter(f"{SVG}g")]
    assert sum(i.startswith("xtick_") for i in ids) == len(SOURCE)
    # The colour bar has ticks too.
    assert sum(i.startswith("ytick_") for i in ids) > len(TARGET)
    width, height = png_size(alignment(weights(5, 30), SOURCE[:1] * 30, TARGET[:5]).png)
    assert width > height


def test_a_long_alignment_is_one_image_of_a_size_that_can_be_shown():
    picture = alignment(weights(120, 150), ["C"] * 150, ["[nH+]"] * 120, "long")
    assert_sound(picture)
    assert len(picture.svg) < 1_000_000


def test_weights_of_nothing_but_zeros_are_drawn():
    assert_sound(alignment(np.zeros((2, 3)), "CCO", "CN"))


@pytest.mark.parametrize(
    ("w", "source", "target"),
    [
        (np.ones((3, 2)), "CCO", "CN"),
        (np.ones((2, 3, 1)), "CCO", "CN"),
        (np.ones((0, 3)), "CCO", ""),
        (np.full((2, 3), np.nan), "CCO", "CN"),
        (-np.ones((2, 3)), "CCO", "CN"),
    ],
)
def test_invalid_alignments_are_rejected(w, source, target):
    with pytest.raises(UsageError):
        alignment(w, source, target)
