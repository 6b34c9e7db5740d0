import numpy as np
import pandas as pd
import pytest
import torch

import molattn.viewer
from molattn.errors import UsageError
from molattn.viewer import matrices, matrix
from tests.viewer.svg import SVG, assert_sound, cells, png_size, root

HOSTILE = "<script>&$x^$--></svg>\x00"


def weights(n=5, m=6, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(m), size=n)


def meshes(picture):
    return [e for e in root(picture).iter(f"{SVG}g") if e.get("id", "").startswith("QuadMesh")]


@pytest.mark.parametrize(
    "shape", [(1, 1), (1, 6), (5, 6), (13, 2), (40, 40), (41, 40), (1, 900), (900, 1), (512, 2048)]
)
def test_a_matrix_is_valid_and_reproducible(shape):
    picture = matrix(weights(*shape), title="weights", row_axis="query", column_axis="key")
    assert_sound(picture)
    assert picture == matrix(weights(*shape), title="weights", row_axis="query", column_axis="key")
    assert len(picture.svg) < 2_000_000


def test_cells_are_row_by_row_and_the_darker_the_larger():
    values = weights()
    colours = cells(matrix(values))
    light = [sum(colours[i]) for i in np.argsort(values.ravel())]
    assert light == sorted(light, reverse=True)
    assert light[0] > light[-1]


def test_values_below_zero_are_blue_and_those_above_red_by_the_same_scale():
    (red, _, blue), white, (red_above, _, blue_above) = cells(matrix([[-0.5, 0.0, 0.5]], vmax=1))
    assert blue > red and red_above > blue_above
    assert min(white) > 240
    assert cells(matrix([[-0.5, 0.0, 0.5]], vmax=1))[2] == cells(matrix([[-1.0, 0.0, 0.5]]))[2]


def test_the_darkest_cell_is_the_largest_value_or_vmax():
    assert cells(matrix([[0.0, 0.5]]))[1] == cells(matrix([[0.0, 1.0]]))[1]
    assert sum(cells(matrix([[0.0, 0.5]], vmax=1))[1]) > sum(cells(matrix([[0.0, 1.0]], vmax=1))[1])
    assert_sound(matrix(np.zeros((3, 3))))


def test_panels_share_one_scale():
    panels = {"one": [[0.0, 0.5]], "two": [[1.0, 0.5]]}
    picture = matrices(panels, ["a"], ["x", "y"], title="both")
    assert_sound(picture)
    first, second = ([p.get("style") for p in mesh.iter(f"{SVG}path")] for mesh in meshes(picture)[:2])
    assert first[1] == second[1]
    assert first[0] != second[0]


def test_numbers_are_written_with_two_decimals():
    plain, numbered = matrix([[0.37, -0.001]]), matrix([[0.37, -0.001]], numbers=True)
    assert "<!-- 0.37 -->" not in plain.svg
    assert "<!-- 0.37 -->" in numbered.svg and "<!-- 0.00 -->" in numbered.svg and "-0.00" not in numbered.svg


def test_names_label_rows_and_columns_and_are_only_text():
    picture = matrix(weights(3, 2), [HOSTILE, "a$_b$", "c"], ["$x", "y" * 99], title=HOSTILE, label=HOSTILE)
    assert_sound(picture)
    assert picture.svg.count("<!-- a$_b$ -->") == 1


def test_many_names_are_thinned_out():
    names = [f"C{i}" for i in range(90)]
    picture = matrix(weights(90, 90), names, names)
    assert_sound(picture)
    assert picture.svg.count("<!-- C0 -->") == 2
    assert 20 < picture.svg.count("<!-- C") < 50


def test_long_names_make_room_for_themselves():
    short, long = (png_size(matrix(weights(9, 9), [n] * 9, [n] * 9).png) for n in ("C", "C" * 12))
    assert long[0] > short[0] and long[1] > short[1]


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.bool])
def test_tensors_are_taken_as_they_are(dtype):
    assert matrix(torch.eye(3).to(dtype)) == matrix(np.eye(3))
    assert matrix(torch.eye(3, requires_grad=True)) == matrix(np.eye(3))


@pytest.mark.parametrize("values", [[1.0], [[[1.0]]], np.zeros((0, 3)), [[np.nan]], [["C"]], [[1.0], [1.0, 2.0]]])
def test_other_values_are_rejected(values):
    with pytest.raises(UsageError, match="needs"):
        matrix(values)


def test_the_error_names_the_shape_only_if_the_shape_is_wrong():
    with pytest.raises(UsageError, match=r"needs numbers of shape \(rows, columns\), not \(1,\)"):
        matrix([1.0])
    with pytest.raises(UsageError, match="needs finite numbers"):
        matrix([[1.0, np.nan]])


def test_panels_and_names_of_other_sizes_are_rejected():
    with pytest.raises(UsageError, match="one size"):
        matrices({"a": weights(2, 2), "b": weights(2, 3)})
    with pytest.raises(UsageError, match="none"):
        matrices({})
    with pytest.raises(UsageError, match="2 names for 3 rows"):
        matrix(weights(3, 2), ["a", "b"])
    with pytest.raises(UsageError, match="1 names for 2 columns"):
        matrix(weights(3, 2), None, ["a"])
    for vmax in (0, -1.0, np.nan):
        with pytest.raises(UsageError, match="above 0"):
            matrix(weights(3, 2), vmax=vmax)


def test_every_name_of_the_package_is_callable():
    for name in molattn.viewer.__all__:
        assert callable(getattr(molattn.viewer, name))


def test_indices_from_zero_replace_missing_names():
    svg = matrix(weights(3, 5), label="").svg
    assert all(f"<!-- {place} -->" in svg for place in range(5)) and "<!-- 5 -->" not in svg


def test_small_panels_share_an_axis_label_and_wide_ones_have_their_own():
    panels = {str(i): np.eye(4) for i in range(3)}
    names = ["a", "b", "c", "d"]
    once = matrices(panels, columns=names, column_axis="what the rows attend to, by key")
    each = matrices(panels, columns=names, column_axis="seen")
    # matplotlib writes each text in a comment next to its outlines.
    assert once.svg.count("<!-- what the rows attend to, by key -->") == 1
    assert each.svg.count("<!-- seen -->") == 3


def test_names_are_any_series_of_texts_or_numbers():
    values, names = weights(3, 3), ["4", "5", "6"]
    expected = matrices({"7": values}, names, names)
    assert expected != matrices({"7": values})
    frame = pd.DataFrame(values, [4, 5, 6], [4, 5, 6])
    for rows in (frame.index, np.array([4, 5, 6]), np.array(names), (4, 5, 6), range(4, 7)):
        assert matrices({7: frame}, rows, rows) == expected
    assert matrices({7: frame}, iter(names), (name for name in names)) == expected
    with pytest.raises(UsageError, match="^2 names for 3 rows"):
        matrix(values, iter([4, 5]))
