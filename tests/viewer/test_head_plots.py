"""The figure of head summaries: a row for each head, a bar for each share."""

import inspect

import numpy as np
import pytest

from molattn.errors import UsageError
from molattn.explain import HeadSummary, summarize_heads
from molattn.viewer import heads_plot
from tests.molecules import SPECIAL, esol
from tests.viewer.maps import attention_map, with_virtual_node
from tests.viewer.svg import SVG, assert_sound, numbers, root, words


@pytest.mark.parametrize(("layers", "heads"), [(1, 1), (2, 3), (4, 12)])
def test_the_figure_is_valid_and_names_its_columns(layers, heads):
    maps = [with_virtual_node(attention_map(s, layers, heads, seed=i)) for i, s in enumerate([*SPECIAL, *esol(20)[0]])]
    summary = summarize_heads(maps)
    picture = heads_plot(summary)
    assert_sound(picture)
    assert heads_plot(summary) == picture
    texts = words(picture)
    assert {"self", "bonded", "virtual node", "uniform", "C to O", "aromatic carbon", "times uniform attention"} <= set(
        texts
    )
    assert any(text.startswith(f"What each head attends to: {len(maps)} molecules, ") for text in texts)
    assert "as an explanation of the prediction: not measured" in texts


def test_the_bars_of_a_head_are_as_long_as_its_shares():
    summary = summarize_heads([attention_map(s, 1, 2, seed=i) for i, s in enumerate(esol(20)[0])])
    patches = [
        numbers(path.get("d"))
        for path in root(heads_plot(summary)).iter(f"{SVG}path")
        if "#08306b" in path.get("style", "")
    ]
    # The darkest bars are "self": those of the two heads, and that of uniform attention, drawn first to last.
    widths = [p[2] - p[0] for p in patches][:3]
    key = summary.keys("distance")[0]
    assert key[1:] == ("any atom", "self")
    expected = np.array([*summary.share(key).ravel(), summary.uniform(key)])
    np.testing.assert_allclose(np.array(widths) / widths[2], expected / expected[2], rtol=1e-3)


def test_one_molecule_of_one_atom_has_a_figure():
    assert_sound(heads_plot(summarize_heads([attention_map("C", 1, 2)])))


def test_a_summary_of_no_molecules_is_refused() -> None:
    with pytest.raises(UsageError, match="has no molecules"):
        heads_plot(HeadSummary())


def test_a_single_map_is_refused_with_the_functions_that_take_it() -> None:
    with pytest.raises(TypeError, match=r"heads_plot draws a HeadSummary, not AttentionMap: .*head_grid"):
        inspect.unwrap(heads_plot)(attention_map("C", 1, 2))  # without the tests' own checks of argument types
