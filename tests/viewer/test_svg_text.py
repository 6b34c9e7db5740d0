"""Lighter SVGs show the same: numbers, marks, styles and texts."""

import re

import numpy as np
import pytest

from molattn.explain import summarize_heads
from molattn.viewer import draw_atoms, head_grid, heads_plot
from molattn.viewer.svg_text import compact, share_letters
from tests.molecules import esol
from tests.viewer.maps import ASPIRIN, attention_map
from tests.viewer.svg import SVG, numbers, root, style, words

LETTER = re.compile(r"<path d='(M[^']*)' (fill='[^']*')/>")


def plain(monkeypatch, draw):
    """The picture as matplotlib writes it, and as it is."""
    light = draw()
    assert light.svg  # drawn at its first use, before the patch
    monkeypatch.setattr("molattn.viewer.figures.compact", lambda svg: svg)
    heavy = draw()
    assert heavy.svg
    return heavy, light


@pytest.mark.parametrize("show", ["matrix", "atoms"])
def test_a_light_grid_has_the_marks_and_texts_of_the_heavy_one(monkeypatch, show):
    attention = attention_map("CCO", 2, 3)
    heavy, light = plain(monkeypatch, lambda: head_grid(attention, show))
    assert words(light) == words(heavy)
    for tag in ("path", "use"):
        before, after = ([*root(p).iter(f"{SVG}{tag}")] for p in (heavy, light))
        assert [style(e).get("fill") for e in after] == [style(e).get("fill") for e in before]
    paths = ([numbers(e.get("d", "")) for e in root(p).iter(f"{SVG}path")] for p in (heavy, light))
    for before, after in zip(*paths, strict=True):
        np.testing.assert_allclose(after, before, atol=0.0051)


def test_pictures_of_many_marks_are_light():
    """Sizes of 4 layers with 8 heads: twice these before molecules, letters and styles were shared."""
    attention = attention_map("CC(=O)Nc1ccc(O)cc1", 4, 8)
    summary = summarize_heads([attention_map(s, 4, 8, seed=i) for i, s in enumerate(esol(20)[0])])
    for picture, most in [
        (head_grid(attention, "atoms", 3), 130_000),
        (heads_plot(summary), 150_000),
        (draw_atoms(attention, 3), 60_000),
    ]:
        assert len(picture.svg) < most


def test_the_molecule_of_a_grid_is_there_once():
    def of(layers):
        picture = head_grid(attention_map(ASPIRIN, layers, 2), "atoms")
        return sum("Q" in e.get("d", "") for e in root(picture).iter(f"{SVG}path"))

    # Digits of the layers and of the scale; an outline in each of six more thumbnails would be six more.
    assert of(4) - of(1) <= 4


@pytest.mark.parametrize("draw", [lambda a: draw_atoms(a, 0), lambda a: head_grid(a, "atoms", 0)])
def test_ids_on_one_page_are_unique_or_of_equal_outlines(draw):
    pictures = [draw(attention_map(smiles, 2, 3)) for smiles in (ASPIRIN, "CCO", "c1ccncc1Cl")]
    known = {}
    for picture in pictures:
        drawn = [e for e in root(picture).iter(f"{SVG}path") if e.get("id")]
        assert len({e.get("id") for e in drawn}) == len(drawn)
        used = {e.get("{http://www.w3.org/1999/xlink}href") for e in root(picture).iter(f"{SVG}use")}
        assert used <= {f"#{e.get('id')}" for e in drawn}
        for e in drawn:
            if not e.get("id").startswith("C"):  # numbered by matplotlib: discs
                assert known.setdefault(e.get("id"), e.get("d")) == e.get("d")


def test_letters_are_shared_and_stay_where_they_are():
    def letter(x):
        return f"<path d='M {x} 2.0\nQ {x + 1} 3.0, {x} 4.0\nZ' fill='#000000'/>\n"

    shared = share_letters(f"<svg width='9'>{letter(1.0)}<path d='' fill='#000000'/>\n{letter(7.5)}</svg>", LETTER)
    assert shared.count("<path id=") == shared.count("M0 0Q1 1 0 2Z") == 1
    assert re.findall(r"<use xlink:href='#\w+' x='(\S+)' y='2' fill='#000000'/>", shared) == ["1", "7.5"]


def test_text_that_looks_like_an_element_is_left_alone():
    comment = '<!-- <path d="M 1.23456 2" style="fill: #ffffff"/> -->'
    assert comment in compact(f'<g id="text_1">\n    {comment}\n   </g>')
    assert compact("<svg/>") == "<svg/>"


def test_a_path_that_is_not_of_matplotlib_is_left_alone():
    text = '<path d="m 1.23456 1 h 2"/>'
    assert compact(text) == text
