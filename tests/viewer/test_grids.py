"""Thumbnails of all heads: as many as there are, on the requested scale."""

import numpy as np
import pytest

from molattn.errors import UsageError
from molattn.explain import AttentionMap
from molattn.viewer import head_grid
from molattn.viewer.palette import ATTENTION
from tests.viewer.maps import ASPIRIN, MOLECULES, attention_map, with_virtual_node
from tests.viewer.svg import SVG, assert_sound, cells, root, small_discs, words

TOKENS = AttentionMap("C1CC1", tuple("C1CC1"), attention_map("CCCCC", 1, 2).weights, {}, {}, position_type="tokens")


@pytest.mark.parametrize("smiles", MOLECULES.values(), ids=MOLECULES)
@pytest.mark.parametrize(("show", "atom"), [("matrix", None), ("atoms", None), ("atoms", 0)])
def test_a_grid_is_valid_and_has_a_thumbnail_for_every_head(smiles, show, atom):
    attention = with_virtual_node(attention_map(smiles, layers=2, heads=3))
    picture = head_grid(attention, show, atom)
    assert_sound(picture)
    assert head_grid(attention, show, atom) == picture
    for label in ("head 0", "head 2", "layer 0", "layer 1"):
        assert words(picture).count(label) == 1
    if show == "atoms":
        assert [len(thumbnail) for thumbnail in small_discs(picture)] == [attention.num_atoms] * 6


def test_a_thumbnail_has_double_bonds_and_letters_with_their_hydrogens():
    """C=O has two lines, and OH has a letter more than O; the other texts are the same."""

    def strokes(smiles):
        picture = head_grid(attention_map(smiles, layers=1, heads=1), "atoms")
        found = [e.get("d", "") for e in root(picture).iter(f"{SVG}path")]
        return max(d.count("M") for d in found if "Q" not in d and "C" not in d), sum(
            d.count("M") for d in found if "Q" in d
        )

    (single, letters), (double, _) = strokes("CCO"), strokes("CC=O")
    assert double > single
    assert letters > strokes("COC")[1] > 0, "of OH, and of O alone"


def test_many_cells_are_images():
    picture = head_grid(attention_map("C" * 100, layers=2, heads=8))
    assert_sound(picture)
    assert len(list(root(picture).iter(f"{SVG}image"))) == 16 + 1  # the scale is one too
    assert len(picture.svg) < 1_000_000


def test_twelve_heads_fit():
    assert_sound(head_grid(attention_map("CCO", layers=3, heads=12), "atoms"))


def test_the_scale_is_common_or_that_of_each_head():
    attention = attention_map("CCO", layers=1, heads=2)
    attention.weights[0, 0] = 0.1
    darkest = 255 * np.array(ATTENTION)
    common, each = (small_discs(head_grid(attention, "atoms", 0, scale)) for scale in ("common", "each"))
    for thumbnail, dark in [(common[0], False), (common[1], True), (each[0], True), (each[1], True)]:
        assert (np.abs(np.array(thumbnail) - darkest).max(1).min() <= 2) == dark
    assert "attention weight" in words(head_grid(attention))
    assert "relative to the head's largest" in words(head_grid(attention, scale="each"))


def test_tokens_have_matrices_and_no_atoms():
    picture = head_grid(TOKENS)
    assert len(cells(picture, 1)) == 25
    assert any("tokens in order" in text for text in words(picture))
    with pytest.raises(UsageError, match="tokens of a SMILES"):
        head_grid(TOKENS, "atoms")


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"show": "bonds"}, "bonds"),
        ({"scale": "log"}, "log"),
        ({"atom": 1}, "show='atoms'"),
        ({"show": "atoms", "atom": 13}, "atom is from 0 to 12, not 13"),
    ],
)
def test_unknown_choices_are_rejected(choice, message):
    # Under pytest the annotations are checked too, and that check may fail first.
    with pytest.raises(Exception, match=message):
        head_grid(attention_map(ASPIRIN), **choice)
