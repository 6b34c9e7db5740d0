import dataclasses
import inspect
from functools import partial

import numpy as np
import pytest

from molattn.errors import InputError, SmilesError, UsageError
from molattn.explain import AttentionMap
from molattn.viewer import AttentionWidget, draw_atom_values, draw_atoms, draw_attribution, head_grid, heat_map
from molattn.viewer.discs import disc_color, footer_lines
from molattn.viewer.palette import ABOVE, ATTENTION, BELOW
from tests.viewer.maps import ASPIRIN, CAFFEINE, METHANE, MOLECULES, SALT, attention_map, with_virtual_node
from tests.viewer.svg import SVG, assert_sound, cells, discs, png_size, rings, root, words


def _unchecked(function):
    """Without the tests' own checks of argument types, if they run with these."""
    if isinstance(function, type):
        return partial(inspect.unwrap(function.__init__), function.__new__(function))
    return inspect.unwrap(function)


@pytest.mark.parametrize("function", [heat_map, draw_atoms, head_grid, AttentionWidget])
def test_pictures_are_of_one_attention_map(function):
    for wrong, name in (([attention_map("CCO")], "list: pass one of its elements"), ("CCO", "str")):
        with pytest.raises(TypeError, match=f"^{function.__name__} takes an AttentionMap, not {name}$"):
            _unchecked(function)(wrong)
    with pytest.raises(TypeError, match="^draw_attribution takes an Attribution, not AttentionMap$"):
        _unchecked(draw_attribution)(attention_map("CCO"))


def lightness(colour):
    return sum(colour)


@pytest.mark.parametrize("smiles", MOLECULES.values(), ids=MOLECULES)
def test_a_heat_map_is_valid_and_reproducible(smiles):
    attention = attention_map(smiles)
    picture = heat_map(attention)
    assert_sound(picture)
    assert heat_map(attention) == picture
    if attention.num_atoms <= 40:
        assert len(cells(picture)) == attention.num_atoms**2


@pytest.mark.parametrize("smiles", MOLECULES.values(), ids=MOLECULES)
@pytest.mark.parametrize("atom", [None, 0, -1])
def test_a_drawing_is_valid_and_reproducible_with_a_disc_per_atom(smiles, atom):
    attention = attention_map(smiles)
    picture = draw_atoms(attention, atom)
    assert_sound(picture)
    assert draw_atoms(attention, atom) == picture
    assert len(discs(picture)) == attention.num_atoms
    assert len(rings(picture)) == (atom is not None)


def test_cells_are_rows_of_receivers_and_the_darker_the_larger_the_weight():
    attention = attention_map(CAFFEINE)
    for layer, head in [(-1, "mean"), (0, "max"), (1, 2)]:
        colours = cells(heat_map(attention, layer, head))
        order = np.argsort(attention.matrix(layer, head).ravel(), kind="stable")
        light = [lightness(colours[i]) for i in order]
        assert light == sorted(light, reverse=True)
        assert light[0] > light[-1]


def test_a_large_heat_map_is_one_image_with_labels_thinned_out():
    picture = heat_map(attention_map("C" * 200, layers=1, heads=1))
    assert_sound(picture)
    assert len(picture.svg) < 500_000
    ticks = [e for e in root(picture).iter(f"{SVG}g") if e.get("id", "").startswith("xtick")]
    assert 20 < len(ticks) < 100


@pytest.mark.parametrize("atom", [None, 3])
@pytest.mark.parametrize(("layer", "head"), [(-1, "mean"), (0, "max"), (1, 2)])
def test_discs_are_the_darker_the_larger_the_weight_and_the_largest_is_darkest(atom, layer, head):
    attention = attention_map(ASPIRIN)
    weights = attention.received_attention(layer, head) if atom is None else attention.matrix(layer, head)[atom]
    colours = [colour for _, colour in discs(draw_atoms(attention, atom, layer, head))]
    light = [lightness(colours[i]) for i in np.argsort(weights)]
    assert light == sorted(light, reverse=True)
    np.testing.assert_allclose(colours[int(weights.argmax())], 255 * np.array(ATTENTION), atol=2)


def test_disc_colors_run_from_white_to_the_darkest():
    assert disc_color(0.0) == (1.0, 1.0, 1.0)
    np.testing.assert_allclose(disc_color(1.0), ATTENTION)
    light = [lightness(disc_color(x)) for x in np.linspace(0, 1, 50)]
    assert (np.diff(light) < 0).all()


def test_black_is_readable_on_the_darkest_disc():
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in ATTENTION]
    luminance = np.dot([0.2126, 0.7152, 0.0722], linear)
    assert (luminance + 0.05) / 0.05 > 7


def test_an_atom_without_attention_has_a_white_disc():
    attention = attention_map(SALT, layers=1, heads=1)
    attention.weights[...] = [[0.0, 1.0], [0.0, 1.0]]
    assert discs(draw_atoms(attention, 0))[0][1] == (255, 255, 255)


def test_the_ring_is_around_the_receiver():
    attention = attention_map(CAFFEINE)
    for atom in (0, 5, attention.num_atoms - 1):
        picture = draw_atoms(attention, atom)
        assert rings(picture) == [discs(picture)[atom][0]]
    assert draw_atoms(attention, -1) == picture


@pytest.mark.parametrize("size", [(480, 360), (260, 188), (900, 700)])
@pytest.mark.parametrize("smiles", ["CCCC", "C" * 40, "CC(C)(C)C(C)(C)C"])
def test_discs_lie_under_the_atoms(smiles, size):
    picture = draw_atoms(attention_map(smiles), size=size)
    centres = [centre for centre, _ in discs(picture)]
    bonds = [e for e in root(picture).iter(f"{SVG}path") if e.get("class", "").startswith("bond-")]
    assert len(bonds) == len(centres) - 1
    for bond in bonds:
        _, *atoms = bond.get("class").split()
        first, last = (tuple(map(float, p.split(","))) for p in bond.get("d")[2:].split(" L ")[:: len(atoms) - 1])
        for atom, end in zip(atoms, (first, last), strict=True):
            np.testing.assert_allclose(centres[int(atom.removeprefix("atom-"))], end, atol=0.5)
    width, height = size
    assert all(0 < x < width and 0 < y < height - 86 for x, y in centres)
    assert png_size(picture.png) == (2 * width, 2 * height)


def test_hydrogens_of_the_map_are_drawn():
    attention = attention_map("CCO", add_hs=True)
    assert attention.num_atoms == 9
    assert len(discs(draw_atoms(attention, 8))) == 9


def test_a_stereocentre_in_rings_gets_no_atom_of_its_own():
    attention = attention_map("C1CC[C@H]2CCCC[C@H]2C1")
    assert len(discs(draw_atoms(attention))) == attention.num_atoms


def test_the_title_of_a_drawing_describes_it():
    attention = attention_map(ASPIRIN)
    title = root(draw_atoms(attention, 3)).find(f"{SVG}title")
    largest = attention.matrix()[3].max()
    words = f"what O3 (ringed) attends to; layer 2 (the last), mean of 4 heads; darkest = {largest:.2g}"
    assert title.text == f"{ASPIRIN}: {words}"
    title = root(draw_atoms(attention, layer=0, head=1)).find(f"{SVG}title")
    assert "attention each atom receives" in title.text
    assert "layer 0, head 1;" in title.text


@pytest.mark.parametrize("smiles", ["[NH3]->[Cu]", "[Re]$[Re]", "C.[Re]$[Re]"])
def test_smiles_with_signs_of_xml_and_of_formulas_are_drawn(smiles):
    attention = attention_map(smiles)
    for picture in (draw_atoms(attention), heat_map(attention)):
        assert_sound(picture)
    assert root(draw_atoms(attention)).find(f"{SVG}title").text.startswith(smiles)


HOSTILE = [
    "<script>alert(1)</script>",
    "--></svg><script>x</script><!--",
    "&amp;&nbsp;\"'",
    "$\\frac{1}{$ x^2 $",
    "\x00\x1b\ud800\ufffe\n",
    "",
    "é" * 5000,
]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_written_as_text(text):
    symbols = (text, "C")
    attention = AttentionMap(text, symbols, np.full((1, 1, 2, 2), 0.5), {text: 0.0}, {text: text})
    assert_sound(heat_map(attention))
    with pytest.raises((SmilesError, InputError)):
        draw_atoms(attention)


@pytest.mark.parametrize("draw", [heat_map, draw_atoms])
@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({"layer": 3}, "layer is from 0 to 2, not 3"),
        ({"layer": -4}, "layer is from 0 to 2, not -4"),
        ({"head": 4}, "head is from 0 to 3, 'mean' or 'max', not 4"),
    ],
)
def test_a_layer_or_head_that_is_not_there_names_the_range(draw, choice, words):
    with pytest.raises(UsageError, match=words):
        draw(attention_map(ASPIRIN), **choice)


@pytest.mark.parametrize(
    ("smiles", "atom", "words"), [(ASPIRIN, 13, "from 0 to 12, not 13"), (METHANE, 1, "is 0, not")]
)
def test_an_atom_that_is_not_there_names_the_range(smiles, atom, words):
    with pytest.raises(UsageError, match=f"atom .*{words}"):
        draw_atoms(attention_map(smiles), atom)


def test_a_picture_too_small_to_read_is_rejected():
    with pytest.raises(UsageError, match="260 x 188"):
        draw_atoms(attention_map(METHANE), size=(100, 400))


def test_a_map_of_another_molecule_is_rejected():
    attention = dataclasses.replace(attention_map("CCO"), smiles="CCN")
    with pytest.raises(InputError, match="C C O"):
        draw_atoms(attention)


def test_every_picture_has_the_faithfulness_of_attention():
    attention = attention_map(ASPIRIN)
    with_score = dataclasses.replace(attention, faithfulness="Kendall 0.07 with the true contributions (nci-logp)")
    for picture, line in [
        (heat_map(attention), "not measured"),
        (heat_map(with_score), "Kendall 0.07"),
        (head_grid(with_score), "Kendall 0.07"),
    ]:
        assert any(text.startswith(f"as an explanation of the prediction: {line}") for text in words(picture))
    # RDKit draws letters as outlines: the pictures differ where the lines do.
    assert draw_atoms(with_score, 0) != draw_atoms(attention, 0)


def test_a_virtual_node_is_given_as_text_and_can_be_the_receiver():
    attention = with_virtual_node(attention_map(ASPIRIN))
    picture = draw_atoms(attention, 3)
    assert_sound(picture)
    assert len(discs(picture)) == 13
    assert "what O3 (ringed) attends to; virtual node 0.25;" in root(picture).find(f"{SVG}title").text
    picture = draw_atoms(attention, 13)
    assert rings(picture) == []
    assert "what virtual node attends to" in root(picture).find(f"{SVG}title").text
    assert "virtual node" in words(heat_map(attention))


def test_rollout_is_drawn_in_place_of_a_layer():
    attention = attention_map(ASPIRIN)
    rolled = attention.rollout()
    colours = [colour for _, colour in discs(draw_atoms(attention, 3, "rollout"))]
    light = [lightness(colours[i]) for i in np.argsort(rolled[3])]
    assert light == sorted(light, reverse=True)
    light = [lightness(c) for c in np.array(cells(heat_map(attention, "rollout")))[np.argsort(rolled.ravel())]]
    assert light == sorted(light, reverse=True)


def test_a_common_top_makes_pictures_comparable():
    attention = attention_map(SALT, layers=1, heads=1)
    attention.weights[...] = 0.5
    ((_, half), _) = discs(draw_atoms(attention, 0, vmax=1.0))
    np.testing.assert_allclose(half, 255 * np.array(disc_color(0.5)), atol=2)
    with pytest.raises(UsageError, match="above 0"):
        draw_atoms(attention, 0, vmax=0.0)


def test_maps_of_tokens_have_a_heat_map_and_are_not_drawn_on_atoms():
    attention = dataclasses.replace(attention_map("CO"), position_type="tokens")
    assert {"0:C", "1:O", "token attended to (sender)"} <= set(words(heat_map(attention)))
    with pytest.raises(UsageError, match="heat_map"):
        draw_atoms(attention)


def test_a_large_molecule_gets_a_larger_picture_and_map_numbers_are_not_drawn():
    assert png_size(draw_atoms(attention_map(ASPIRIN)).png) == (960, 776)
    width, height = png_size(draw_atoms(attention_map(MOLECULES["60 atoms"])).png)
    assert 960 < width <= 3200 and 776 <= height <= 2400
    plain = draw_atoms(attention_map("CO"))
    numbered = draw_atoms(dataclasses.replace(attention_map("CO"), smiles="[CH3:7][OH:8]"))
    assert numbered.png == plain.png


def test_fragments_lie_apart():
    centres = np.array([centre for centre, _ in discs(draw_atoms(attention_map("O.CC(=O)[O-].[NH4+].Cl.Cl")))])
    apart = np.linalg.norm(centres[:, None] - centres, axis=-1) + 1e9 * np.eye(len(centres))
    assert apart.min() > 25  # discs are some 20 pixels across


def test_a_map_whose_rows_do_not_sum_to_1_has_a_note():
    attention = dataclasses.replace(attention_map(ASPIRIN), rows_sum_to_one=False)
    assert "rows do not sum to 1" in root(draw_atoms(attention, 0)).find(f"{SVG}title").text
    for draw in (heat_map, head_grid):
        assert any("rows do not sum to 1" in text for text in words(draw(attention)))
        assert not any("rows do not sum to 1" in text for text in words(draw(attention_map(ASPIRIN))))


def test_a_long_line_at_the_foot_is_wrapped_and_whole():
    measured = (
        "Kendall tau 0.05 with the true contributions of atoms on 500 held-out molecules (random: 0.00); best 0.61"
    )
    attention = dataclasses.replace(attention_map("CO", layers=1, heads=1), faithfulness=measured)
    for draw in (heat_map, head_grid):
        assert measured in " ".join(text.replace("\n", " ") for text in words(draw(attention)))
    assert_sound(draw_atoms(attention))


def test_a_line_at_the_foot_that_does_not_fit_ends_with_dots():
    text = "faithfulness: " + "removing its top atoms changes logS 2.35 times as much as random ones, " * 2
    assert footer_lines(text, 260) == [
        "faithfulness: removing its top atoms changes logS",
        "2.35 times as much as random ones, removing its ...",
    ]
    assert " ".join(footer_lines(text, 480)) == text.strip()


def test_values_of_atoms_are_orange_above_zero_and_blue_below():
    values = np.linspace(-2.0, 1.0, 13)
    picture = draw_atom_values(ASPIRIN, values, name="q", unit="e")
    assert_sound(picture)
    assert draw_atom_values(ASPIRIN, values, name="q", unit="e") == picture
    colours = np.array([colour for _, colour in discs(picture)])
    assert len(colours) == 13
    np.testing.assert_allclose(colours[0], 255 * np.array(BELOW), atol=2)
    # Equal sizes on both sides of zero are distinguished by hue: red and blue channels are swapped.
    expected = [disc_color(abs(v) / 2, ABOVE if v >= 0 else BELOW) for v in values]
    np.testing.assert_allclose(colours, 255 * np.array(expected), atol=2)
    assert (colours[:8, 0] < colours[:8, 2]).all()
    assert (colours[10:, 0] > colours[10:, 2]).all()
    assert "q of each atom; darkest = 2 e" in picture.svg


def test_atoms_without_a_value_have_no_disc_and_all_zeros_are_drawn():
    assert len(discs(draw_atom_values("CCO", [1.0, np.nan, 3.0]))) == 2
    assert_sound(draw_atom_values("CCO", [0.0, 0.0, 0.0]))
    assert_sound(draw_atom_values("CCO", [np.nan] * 3))
    assert len(discs(draw_atom_values("CO", [1.0] * 6, add_hs=True))) == 6


def test_values_for_other_atoms_are_rejected():
    with pytest.raises(InputError, match=r"shape \(2,\), and 'CCO' has 3 atoms"):
        draw_atom_values("CCO", [1.0, 2.0])
    with pytest.raises(SmilesError):
        draw_atom_values("C1CC", [1.0])
    with pytest.raises(UsageError, match="size is at least"):
        draw_atom_values("C", [1.0], size=(10, 10))


def test_weights_that_are_nan_are_not_drawn_and_change_no_other_color():
    attention = attention_map("CCO")
    weights = attention.weights.copy()
    weights[..., 1] = np.nan
    missing = dataclasses.replace(attention, weights=weights)
    rest = dataclasses.replace(attention, weights=np.where(np.isnan(weights), 0, weights))
    for atom in (None, 2):
        drawn, expected = discs(draw_atoms(missing, atom)), discs(draw_atoms(rest, atom))
        assert drawn == [expected[0], expected[2]]
    for picture in (heat_map(missing), head_grid(missing), head_grid(missing, "atoms"), head_grid(missing, "atoms", 2)):
        assert_sound(picture)
    for show in (draw_atoms, heat_map):
        assert_sound(show(dataclasses.replace(attention, weights=np.full_like(weights, np.nan))))


@pytest.mark.parametrize("size", [(300.5, 300), (300,), (300, 300, 300), 300, "big", ("300", "300")])
def test_a_size_is_two_integers(size):
    draw = inspect.unwrap(draw_atoms)  # without the tests' own checks of argument types
    with pytest.raises(UsageError, match="^size is the width and height in pixels, two integers, not "):
        draw(attention_map("CCO"), size=size)
    assert draw(attention_map("CCO"), size=np.array([300, 200])) == draw_atoms(attention_map("CCO"), size=(300, 200))


@pytest.mark.parametrize("vmax", ["a", [1.0], np.nan, 0, -1.0])
@pytest.mark.parametrize("draw", [heat_map, draw_atoms])
def test_the_darkest_color_is_that_of_a_number_above_0(draw, vmax):
    with pytest.raises(UsageError, match="^vmax, the value of the darkest color, must be a number above 0, not "):
        inspect.unwrap(draw)(attention_map("CCO"), vmax=vmax)
