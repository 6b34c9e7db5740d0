"""An asymmetric map: every view must show receivers and senders, and not the reverse."""

import numpy as np
import pytest

from molattn.explain import AttentionMap
from molattn.viewer import draw_atoms, head_grid, heat_map
from tests.viewer.svg import cells, discs, small_discs

# C0 attends only to O2, C1 to C0, O2 to itself; so C0 receives a third, C1 nothing, O2 two thirds.
ATTENDS_TO = {0: 2, 1: 0, 2: 2}
WEIGHTS = np.zeros((3, 3))
for receiver, sender in ATTENDS_TO.items():
    WEIGHTS[receiver, sender] = 1.0
RECEIVED = [1 / 3, 0, 2 / 3]


@pytest.fixture
def attention():
    """Head 1 of layer 0 has these weights, head 0 their transpose."""
    others = np.stack([WEIGHTS.T, WEIGHTS])
    return AttentionMap("CCO", ("C", "C", "O"), others[None], {}, {}, rows_sum_to_one=False)


def darkness(colours):
    return 765 - np.array([sum(colour) for colour in colours])


def test_matrix_frame_and_received(attention):
    rows = [r for r in attention.to_frame().to_pylist() if r["head"] == 1 and r["weight"] > 0]
    assert {r["receiver"]: r["sender"] for r in rows} == ATTENDS_TO
    np.testing.assert_allclose(attention.received_attention(0, 1), RECEIVED)


def test_heat_map(attention):
    drawn = darkness(cells(heat_map(attention, 0, 1))).reshape(3, 3)
    assert {i: int(row.argmax()) for i, row in enumerate(drawn)} == ATTENDS_TO
    assert (drawn > drawn.max() / 2).tolist() == WEIGHTS.astype(bool).tolist()


@pytest.mark.parametrize("atom", ATTENDS_TO)
def test_atoms(attention, atom):
    drawn = darkness([colour for _, colour in discs(draw_atoms(attention, atom, 0, 1))])
    assert np.flatnonzero(drawn).tolist() == [ATTENDS_TO[atom]]


def test_received_on_atoms(attention):
    drawn = darkness([colour for _, colour in discs(draw_atoms(attention, None, 0, 1))])
    assert drawn[1] == 0 < drawn[0] < drawn[2]


def test_thumbnails_of_matrices(attention):
    picture = head_grid(attention)
    for head, expected in enumerate((WEIGHTS.T, WEIGHTS)):
        drawn = darkness(cells(picture, head)).reshape(3, 3)
        assert (drawn > drawn.max() / 2).tolist() == expected.astype(bool).tolist()


@pytest.mark.parametrize("atom", ATTENDS_TO)
def test_thumbnails_of_atoms(attention, atom):
    _, thumbnail = small_discs(head_grid(attention, "atoms", atom))
    assert np.flatnonzero(darkness(thumbnail)).tolist() == [ATTENDS_TO[atom]]
