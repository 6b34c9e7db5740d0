"""The page in a browser: hovering, clicking, keyboard navigation, downloads and embedding."""

import base64
import csv
import io
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from molattn.explain import AttentionMap, Attribution
from molattn.viewer import AttentionWidget, page
from molattn.viewer.discs import format_values
from molattn.viewer.palette import PAGE_COLORS, to_color
from molattn.viewer.web.document import framed
from molattn.viewer.web.payload import payload
from tests.viewer.conftest import Watched, wait_until
from tests.viewer.maps import ASPIRIN, CAFFEINE, PEPTIDE, SALT, attention_map, with_virtual_node
from tests.viewer.test_page import HOSTILE

HEAT = "canvas[role=application]"
GREEN, ORANGE, BLUE = (to_color(PAGE_COLORS[name][0]) for name in ("attention", "above", "below"))
RED = round(255 * GREEN[0])
"""The red channel of the largest weight."""


def in_words(colour):
    return f"rgb({','.join(str(round(255 * c)) for c in colour)})"


def status(tab):
    return tab.locator("[role=status]").inner_text()


def parse_number(text):
    return float(text.replace("\u2212", "-"))


def rows(tab):
    """The table of the largest weights: (label, weight) in its order."""
    found = tab.locator("section tbody").first.locator("tr").all()
    return [(r.locator("th").inner_text(), parse_number(r.locator("td").first.inner_text())) for r in found]


def atom(tab, i):
    return tab.locator(".hit").nth(i)


def fills(tab):
    """How green each disc is, from 0 (white) to 1, by the red channel of the color."""
    found = tab.evaluate("[...document.querySelectorAll('svg > rect')].map((e) => e.getAttribute('fill'))")
    colours = [re.fullmatch(r"rgb\((\d+),(\d+),(\d+)\)", f) for f in found]
    count = tab.locator(".hit").count()
    return [(255 - int(c[1])) / (255 - RED) if c else 0.0 for c in colours[:count]]


def heat_point(tab, attention, i, j):
    """The pixel of the middle of cell (i, j), by the layout of the page: equal cells, aligned right and bottom."""
    size = tab.locator(HEAT).bounding_box()["width"]
    n, longest = len(attention.labels), max(len(label[:8]) for label in attention.labels)
    font = min(max(size / n / 1.3, 8), 12)
    edge = np.ceil(longest * font * 0.62 + 6)
    side = (size - edge - 1) / n
    return {"x": float(edge + (j + 0.5) * side), "y": float(edge + (i + 0.5) * side)}


def near(attention, layer):
    """Half a step of the encoding of these weights, and of the four decimals that are shown."""
    return attention.weights[layer].max() / 510 + 0.000051


def asymmetric():
    """CCO, where C0 attends to O2, C1 to C0, and O2 mostly to itself; all are whole steps of their encoding."""
    weights = np.array([[0.2, 0.29, 0.51], [0.51, 0.32, 0.17], [0.02, 0.13, 0.85]], dtype=np.float32)
    return AttentionMap("CCO", ("C", "C", "O"), weights[None, None], {"logS": 1.0}, {"logS": "mol/L"})


def test_an_asymmetric_map_has_the_right_direction_everywhere(opened):
    attention = asymmetric()
    tab = opened(page([attention]))
    atom(tab, 0).hover()
    assert status(tab) == "C0 attends most to O2 0.510, C1 0.290, C0 0.200."
    assert [label for label, _ in rows(tab)] == ["O2", "C1", "C0"]
    assert np.argsort(fills(tab)).tolist() == [0, 1, 2]
    tab.locator(HEAT).hover(position=heat_point(tab, attention, 0, 2))
    assert status(tab) == "C0 attends to O2: 0.5100"
    tab.locator(HEAT).hover(position=heat_point(tab, attention, 1, 0))
    assert status(tab) == "C1 attends to C0: 0.5100"
    tab.get_by_text("what attends to it").click()
    atom(tab, 0).hover()
    assert status(tab) == "What attends most to C0: C1 0.510, C0 0.200, O2 0.020."
    tab.locator(HEAT).hover(position=heat_point(tab, attention, 1, 0))
    assert status(tab) == "C1 attends to C0: 0.5100"


def test_the_cells_of_the_heat_map_are_rows_of_receivers(opened):
    attention = asymmetric()
    tab = opened(page([attention]))
    tab.get_by_text("absolute").click()

    def green(i, j):
        point = heat_point(tab, attention, i, j)
        pixel = tab.evaluate(
            f"""([x, y]) => {{
              const pen = new OffscreenCanvas(1, 1).getContext("2d", {{ willReadFrequently: true }});
              pen.drawImage(document.querySelector("{HEAT}"), -x, -y);
              return [...pen.getImageData(0, 0, 1, 1).data];
            }}""",
            [round(point["x"]) + 4, round(point["y"]) + 4],
        )
        return (255 - pixel[0]) / (255 - int(PAGE_COLORS["cell"][0][1:3], 16))

    shown = [[green(i, j) for j in range(3)] for i in range(3)]
    np.testing.assert_allclose(shown, attention.weights[0, 0] / 0.85, atol=0.01)


@pytest.mark.parametrize("smiles", [CAFFEINE, SALT])
def test_numbers_are_numpy_s_within_half_a_step_for_every_layer_and_head(opened, smiles):
    attention = with_virtual_node(attention_map(smiles, layers=2, heads=3))
    tab = opened(page([attention]))
    for layer in range(2):
        for head in (0, 1, 2, "mean", "max"):
            kind = f"head {head}" if isinstance(head, int) else f"{head} of the heads"
            tab.get_by_role("radio", name=f"layer {layer}, {kind}").click()
            for i in (0, len(attention.labels) - 1):
                atom(tab, i).hover()
                expected = attention.matrix(layer, head)[i]
                found = rows(tab)
                assert len(found) == min(10, len(expected))
                for label, weight in found:
                    assert abs(weight - expected[attention.labels.index(label)]) <= near(attention, layer)
                assert [w for _, w in found] == sorted((w for _, w in found), reverse=True)


def test_without_a_selection_the_attention_received_is_shown(opened):
    attention = attention_map(ASPIRIN)
    tab = opened(page([attention]))
    assert status(tab).startswith("Attention received")
    received = attention.received_attention()
    for label, weight in rows(tab):
        assert abs(weight - received[attention.labels.index(label)]) <= near(attention, -1)
    assert int(np.argmax(fills(tab))) == int(received.argmax())


def test_an_atom_is_pinned_by_a_click_and_released_with_escape(opened):
    attention = attention_map(ASPIRIN)
    tab = opened(page([attention]))
    atom(tab, 3).click()
    tab.mouse.move(5, 5)
    assert status(tab).startswith("O3 attends most to")
    assert atom(tab, 3).get_attribute("aria-pressed") == "true"
    atom(tab, 7).hover()
    assert status(tab) == f"O3 attends to C7: {float(status(tab)[-6:]):.4f}"
    assert abs(float(status(tab)[-6:]) - attention.matrix()[3, 7]) <= near(attention, -1)
    tab.keyboard.press("Escape")
    assert atom(tab, 3).get_attribute("aria-pressed") == "false"
    assert status(tab).startswith("Attention received")


def test_the_keyboard_walks_along_bonds_pins_and_clears(opened):
    tab = opened(page([attention_map("CCO")]))
    focused = "document.activeElement.getAttribute('aria-label')"
    atom(tab, 0).focus()
    assert status(tab).startswith("C0 attends most to")
    x = [atom(tab, i).bounding_box()["x"] for i in range(3)]
    forth, back = ("ArrowRight", "ArrowLeft") if x[0] < x[2] else ("ArrowLeft", "ArrowRight")
    tab.keyboard.press(forth)
    assert tab.evaluate(focused) == "C1 next to C0 next to O2"
    tab.keyboard.press(forth)
    assert status(tab).startswith("O2 attends most to")
    tab.keyboard.press("Enter")
    assert atom(tab, 2).get_attribute("aria-pressed") == "true"
    tab.keyboard.press(back)
    assert status(tab).startswith("O2 attends to C1")
    tab.keyboard.press("Escape")
    assert status(tab).startswith("Attention received")
    tab.keyboard.press("End")
    assert tab.evaluate(focused).startswith("O2")
    tab.keyboard.press("PageUp")
    assert tab.evaluate(focused).startswith("C1")


def test_the_keyboard_reaches_every_atom_and_every_control(opened):
    attention = attention_map("C[C@H](N)C(=O)O.[Na+].[Cl-]")
    tab = opened(page([attention, attention_map("CCO")]))
    seen = []
    for _ in range(30):
        tab.keyboard.press("Tab")
        seen.append(tab.evaluate("document.activeElement.tagName + ' ' + (document.activeElement.textContent || '')"))
    assert [s for s in seen if s.startswith("rect")] and [s for s in seen if s.startswith("CANVAS")]
    assert {"SELECT", "INPUT", "BUTTON", "SUMMARY"} <= {s.split()[0] for s in seen}
    assert {"BUTTON Save SVG", "BUTTON Save PNG", "BUTTON Save CSV"} <= set(seen)
    atom(tab, 0).focus()
    reached = {0}
    for _ in range(attention.num_atoms - 1):
        tab.keyboard.press("PageDown")
        reached.add(tab.evaluate("[...document.querySelectorAll('.hit')].indexOf(document.activeElement)"))
    assert reached == set(range(attention.num_atoms))


def test_the_keyboard_walks_through_the_heat_map_and_the_heads(opened):
    attention = attention_map(ASPIRIN)
    tab = opened(page([attention]))
    tab.locator(HEAT).focus()
    tab.keyboard.press("ArrowRight")
    assert status(tab).startswith("C0 attends to C0:")
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("ArrowDown")
    assert status(tab).startswith("O2 attends to C1:")
    assert abs(float(status(tab)[-6:]) - attention.matrix()[2, 1]) <= near(attention, -1)
    tab.locator("[role=radio][aria-checked=true]").focus()
    tab.keyboard.press("ArrowUp")
    tab.keyboard.press("ArrowLeft")
    assert tab.locator("h2").inner_text() == "Layer 1, head 3"
    assert tab.evaluate("document.activeElement.title") == "layer 1, head 3"


def test_scales_threshold_and_self(opened):
    attention = asymmetric()
    tab = opened(page([attention]))
    atom(tab, 1).click()
    np.testing.assert_allclose(fills(tab), np.array([0.51, 0.32, 0.17]) / 0.51, atol=0.01)
    tab.get_by_text("absolute").click()
    np.testing.assert_allclose(fills(tab), np.array([0.51, 0.32, 0.17]) / 0.85, atol=0.01)
    tab.locator("input[type=range]").fill("0.5")
    np.testing.assert_allclose(fills(tab), [0.6, 0, 0], atol=0.01)
    assert tab.locator("output").inner_text() == "0.425"
    tab.locator("input[type=range]").fill("0")
    tab.locator("input[type=checkbox]").uncheck()
    # The weight of O2 on itself is 0.85; without self-attention the largest is 0.51.
    np.testing.assert_allclose(fills(tab), [1, 0, 1 / 3], atol=0.01)
    assert [label for label, _ in rows(tab)] == ["C0", "O2"]
    tab.get_by_text("\u00d7 uniform", exact=True).first.click()
    tab.locator("input[type=checkbox]").check()
    # More than uniform attention is orange, less is blue.
    more, less = np.log2(0.51 * 3) / 3, -np.log2(0.17 * 3) / 3
    colour = tab.evaluate("document.querySelector('svg > rect').getAttribute('fill')")
    expected = [255 - more * 255 * (1 - c) for c in ORANGE]
    np.testing.assert_allclose([int(c) for c in re.findall(r"\d+", colour)], expected, atol=1)
    assert fills(tab)[2] * (255 - RED) == pytest.approx(less * 255 * (1 - BLUE[0]), abs=2)
    assert "times the uniform weight, 1/3" in tab.locator(".key").text_content()


def test_what_is_saved_is_what_is_shown(opened):
    attention = attention_map(ASPIRIN)
    tab = opened(page([attention]))
    atom(tab, 3).click()

    def saved(kind):
        with tab.expect_download() as download:
            tab.get_by_role("button", name=f"Save {kind}").click()
        assert download.value.suggested_filename == f"molattn-CC_O_Oc1ccccc1C_O_O-attention-layer2-mean.{kind.lower()}"
        return download.value.path().read_bytes()

    table = list(csv.DictReader(io.StringIO(saved("CSV").decode())))
    assert len(table) == 13 * 13
    weights = np.zeros((13, 13))
    for row in table:
        i, j = int(row["receiver"]), int(row["sender"])
        weights[i, j] = float(row["weight"])
        assert (row["layer"], row["head"]) == ("2", "mean")
        assert (row["receiver_symbol"], row["sender_symbol"]) == (attention.symbols[i], attention.symbols[j])
    steps = attention.weights[-1].max(-1).mean(0)[:, None] / 510
    assert (np.abs(weights - attention.matrix()) <= steps * 1.001).all()
    svg = ET.fromstring(saved("SVG"))
    words = " ".join(svg.itertext())
    assert "O3 attends most to" in words and "not measured" in words and ASPIRIN in words
    discs = [e for e in svg.iter("{http://www.w3.org/2000/svg}rect") if e.get("rx") == "13"]
    assert len(discs) == 13 and not [e for e in svg.iter() if e.get("class") == "hit"]
    png = saved("PNG")
    assert png.startswith(b"\x89PNG") and len(png) > 5000


def test_all_weights_are_in_a_table_for_those_who_see_no_heat_map(opened):
    attention = attention_map(ASPIRIN)
    tab = opened(page([attention]))
    tab.get_by_text("All weights as a table").click()
    tab.locator("details tbody td").first.wait_for()  # the browser fills it in after the click
    cells = tab.locator("details tbody td").all_inner_texts()
    shown = np.array(cells, dtype=float).reshape(13, 13)
    assert (np.abs(shown - attention.matrix()) <= near(attention, -1)).all()
    assert tab.locator("details tbody th").all_inner_texts() == attention.labels


def test_a_molecule_is_selected_and_predictions_are_shown(opened):
    maps = [attention_map(CAFFEINE), attention_map("C"), attention_map(SALT)]
    tab = opened(page(maps, truth=[{"logS": -0.876}, None, None]))
    assert tab.locator("h1").inner_text() == CAFFEINE
    assert tab.locator(".predictions").inner_text() == "logS predicted \u22121.000 true \u22120.876 mol/L"
    tab.locator("select").first.select_option(index=1)
    assert tab.locator("h1").inner_text() == "C"
    assert rows(tab) == [("C0", 1.0)]
    assert tab.locator(".predictions").inner_text() == "logS predicted \u22121.000 mol/L"
    tab.locator("select").first.select_option(index=2)
    assert tab.locator(".hit").count() == 2


def test_virtual_nodes_sums_and_faithfulness_are_shown(opened):
    attention = replace(
        with_virtual_node(attention_map("CCO")), rows_sum_to_one=False, faithfulness="Kendall 0.12 of 0.5"
    )
    tab = opened(page([attention]))
    atom(tab, 3).hover()
    assert status(tab).startswith("virtual node attends most to")
    words = tab.locator("footer").inner_text()
    assert "do not sum to 1" in words and "Kendall 0.12 of 0.5" in words
    assert "do not sum" not in opened(page([attention_map("CCO")])).locator("footer").inner_text()


def test_tokens_are_shown_as_a_row_and_walked_along(opened):
    attention = attention_map(ASPIRIN)
    tokens = replace(attention, smiles="C1CCCCCC1CCCC", symbols=tuple("C1CCCCCC1CCCC"), position_type="tokens")
    tab = opened(page([tokens]))
    atom(tab, 1).focus()
    assert status(tab).startswith("1:1 attends most to")
    tab.keyboard.press("ArrowRight")
    assert status(tab).startswith("2:C attends most to")
    assert "token" in tab.locator("thead").first.inner_text()


def attribution(adds_up=True, **more):
    m = attention_map(ASPIRIN)
    values = np.linspace(-0.5, 1.0, 13)
    return Attribution(
        ASPIRIN, m.symbols, values, "additive", "logS", float(values.sum() - 2 + 0.25), "mol/L", -2.0, {"logP": 0.25},
        adds_up, **more,
    )  # fmt: skip


def test_attributions_of_a_class_have_its_score_and_its_probability(opened):
    of_class = replace(attribution(), quantity="log-odds of active", unit="log-odds", probability=0.8175745)
    tab = opened(page([], [of_class]))
    assert rows(tab)[-2:] == [("log-odds of active", 1.5), ("probability", 0.8176)]
    assert "The terms add up to the log-odds of active." in tab.locator("section footer").inner_text()
    assert "predicted 0.818" in tab.locator(".predictions").inner_text()


def test_attributions_have_their_terms_their_sum_and_a_method_to_choose(opened):
    other = replace(attribution(adds_up=False), method="occlusion", faithfulness="AUROC 0.9")
    tab = opened(page([attention_map(ASPIRIN)], [attribution(), other]))
    tab.get_by_role("tab", name="Attention").focus()
    tab.keyboard.press("ArrowRight")
    assert tab.evaluate("document.activeElement.textContent") == "Attributions"
    assert rows(tab) == [
        ("constant", -2.0), ("all atoms", 3.25), ("logP", 0.25), ("sum", 1.5), ("prediction", 1.5),
    ]  # fmt: skip
    terms = tab.locator(".terms tbody tr")
    assert terms.count() == 13 and terms.first.inner_text().split() == ["O12", "1.0000"]
    atom(tab, 12).hover()
    assert status(tab) == "O12 contributes 1.0000 mol/L."
    assert "on" in terms.first.get_attribute("class")
    colours = tab.evaluate("[...document.querySelectorAll('svg > rect')].map((e) => e.getAttribute('fill'))")
    assert colours[12] == in_words(ORANGE), "orange raises"
    found = [int(c) for c in re.findall(r"\d+", colours[0])]
    np.testing.assert_allclose(found, [255 * (1 + c) / 2 for c in BLUE], atol=1, err_msg="blue lowers")
    tab.locator("select").select_option(index=1)
    assert "do not add up" in tab.locator("footer").inner_text() and "AUROC 0.9" in tab.locator("footer").inner_text()
    assert "sum" not in [label for label, _ in rows(tab)]
    with tab.expect_download() as download:
        tab.get_by_role("button", name="Save CSV").click()
    table = list(csv.DictReader(io.StringIO(download.value.path().read_text())))
    assert [row["term"] for row in table][-3:] == ["constant", "logP", "prediction"]
    assert {(row["method"], row["target"]) for row in table} == {("occlusion", "logS")}
    assert download.value.suggested_filename == "molattn-CC_O_Oc1ccccc1C_O_O-occlusion-logS.csv"


def test_small_values_have_digits(opened):
    small = replace(attribution(), values=np.linspace(-0.0005, 0.001, 13) / 10)
    tab = opened(page([], [small]))
    assert "+0.00010" in tab.locator("svg.molecule").text_content()
    assert tab.locator(".terms tbody tr").first.inner_text().split() == ["O12", "0.000100"]
    atom(tab, 12).hover()
    assert status(tab) == "O12 contributes 0.000100 mol/L."


@pytest.mark.parametrize("values", [[0.004, -0.0012, 0.0], [1.2345, -12.0, 0.004], [-0.0996, 0.0], [1e-9, -1e-9]])
def test_values_are_written_as_on_the_static_picture(opened, values):
    padded = np.resize(values, 13)
    tab = opened(page([], [replace(attribution(), values=padded)]))
    # RDKit's font has no minus sign, so that the picture has a hyphen.
    assert tab.locator("text.number").all_text_contents() == [v.replace("-", "\u2212") for v in format_values(padded)]


def test_attention_weights_have_no_sign_and_occlusion_has_its_unit(opened):
    weights = replace(
        attribution(adds_up=False), method="rollout", values=np.linspace(0.0, 0.2, 13), has_unit=False, constant=None
    )
    tab = opened(page([], [weights, replace(attribution(adds_up=False), method="occlusion")]))
    words = tab.locator("section").inner_text()
    assert tab.locator("h2").first.inner_text() == "The weight of each atom for logS: rollout"
    assert "Weights have no sign" in words and "raises" not in words and "contribut" not in words
    key = tab.locator("svg.key").first.text_content()
    assert "0.200weight" in key and "mol/L" not in key and "-0.200" not in key
    atom(tab, 12).hover()
    assert status(tab) == "O12 has the weight 0.2000."
    tab.locator("select").select_option(index=1)
    assert "contribution, mol/L" in tab.locator("svg.key").first.text_content()
    atom(tab, 12).hover()
    assert status(tab) == "O12 contributes 1.0000 mol/L."


def test_attributions_without_a_map_have_a_page(opened):
    tab = opened(page([], [attribution()]))
    assert tab.get_by_role("tab").count() == 0
    assert tab.locator("h2").inner_text() == "What each atom contributes to logS: additive"


def test_two_pages_in_one_document_do_not_disturb_each_other(opened):
    document = "<!doctype html><meta charset=utf-8>" + framed(page([attention_map(ASPIRIN)]))
    tab = opened(document + framed(page([attention_map(CAFFEINE)], [])))
    first, second = (tab.frame_locator("iframe").nth(k) for k in (0, 1))
    first.locator(".hit").nth(3).click()
    second.get_by_text("what attends to it").click()
    second.locator(".hit").nth(0).click()
    assert first.locator("[role=status]").inner_text().startswith("O3 attends most to")
    assert second.locator("[role=status]").inner_text().startswith("What attends most to C0")
    with tab.expect_download() as download:
        first.get_by_role("button", name="Save PNG").click()
    assert download.value.path().read_bytes().startswith(b"\x89PNG")


def test_hostile_names_are_shown_as_text(opened):
    m, one, maps, attributions, truth = attention_map(ASPIRIN), np.ones(13), [], [], []
    for k, text in enumerate(HOSTILE):
        # A different molecule each, so that its attribution joins it.
        atoms = replace(attention_map("C" * (k + 1)), prediction={text: 1.0}, units={text: text}, faithfulness=text)
        maps.append(replace(with_virtual_node(atoms), virtual=(text,)))
        maps.append(
            AttentionMap(text, (text, "C"), np.full((1, 1, 2, 2), 0.5), {text: 1.0}, {}, position_type="tokens")
        )
        of = (atoms.smiles, atoms.symbols, np.ones(k + 1), text, text, 1.0, text, 0.5, {text: 2.0})
        attributions.append(Attribution(*of, faithfulness=text))
        truth += [{text: text}, None]
    names = "[...new Set([...document.querySelectorAll('main *')].map((e) => e.localName))]"
    plain = opened(page([m, m], [Attribution(ASPIRIN, m.symbols, one, "cam", "y", 1.0, other_terms={"x": 1.0})]))
    known = set(plain.evaluate(names))
    plain.get_by_role("tab", name="Attributions").click()
    known |= set(plain.evaluate(names))
    tab = opened(page(maps, attributions, truth))
    shown = [entry["smiles"] for entry in payload(maps)["molecules"]]
    for k in range(len(HOSTILE)):
        name = shown[2 * k + 1]
        tab.locator("select").first.select_option(index=2 * k)
        tab.get_by_role("tab", name="Attributions").click()
        assert name in tab.locator("h2").text_content()
        assert name in tab.locator("footer").text_content()
        assert set(tab.evaluate(names)) <= known
        tab.get_by_role("tab", name="Attention").click()
        tab.locator(".hit").last.focus()
        assert status(tab).startswith(" ".join(name.split())[:3])
        assert set(tab.evaluate(names)) <= known
        tab.locator("select").first.select_option(index=2 * k + 1)
        assert tab.locator("h1").text_content() == name
        assert set(tab.evaluate(names)) <= known
        with tab.expect_download() as download:
            tab.get_by_role("button", name="Save SVG").click()
        ET.fromstring(download.value.path().read_bytes())
    assert tab.evaluate("document.scripts.length") == 2
    assert tab.evaluate("({}).molecules") is None


def test_a_saved_table_holds_no_formula(opened):
    m = attention_map("CCO")
    others = {"=1+1": 1.0, "@SUM(A1)": 2.0, "-2+3": 3.0, "-": 4.0, "plain": 5.0}
    tab = opened(page([], [Attribution("CCO", m.symbols, -np.ones(3), "cam", "y", -1.0, other_terms=others)]))
    with tab.expect_download() as download:
        tab.get_by_role("button", name="Save CSV").click()
    table = list(csv.DictReader(io.StringIO(download.value.path().read_text())))
    assert [row["term"] for row in table[3:8]] == ["'=1+1", "'@SUM(A1)", "'-2+3", "-", "plain"]
    assert [row["value"] for row in table[:3]] == ["-1"] * 3


def test_the_policy_blocks_injected_scripts(browser, tmp_path):
    """The Content Security Policy blocks injected scripts, in addition to escaping."""
    document = page([attention_map("CCO")])
    injected = document.replace(
        "<noscript>", "<img src=x onerror='window.bad=1'><script>window.bad=1</script><noscript>"
    )
    path = tmp_path / "page.html"
    path.write_text(injected)
    watched = Watched(browser)
    watched.tab.goto(path.as_uri())
    watched.tab.wait_for_selector("svg")
    assert watched.tab.evaluate("window.bad") is None
    assert sum("Content Security Policy" in complaint for complaint in watched.complaints) >= 2
    watched.context.close()


def test_a_hundred_atoms_are_drawn_again_within_50_ms(opened):
    tab = opened(page([attention_map("C" * 100, layers=2, heads=2)]))
    atom(tab, 50).hover()
    times = tab.evaluate(
        """() => [...document.querySelectorAll(".hit")].slice(0, 31).map((hit) => {
          const pen = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
          const begin = performance.now();
          hit.dispatchEvent(new PointerEvent("pointerover", { bubbles: true }));
          document.body.getBoundingClientRect();
          pen.drawImage(document.querySelector("canvas"), 0, 0);
          pen.getImageData(0, 0, 1, 1); // not before all is drawn
          return performance.now() - begin;
        })"""
    )
    assert status(tab).startswith("C30 attends most to")
    assert min(times) < 50, "whatever else the machine does"


def test_words_have_the_contrast_of_wcag_aa_and_controls_have_names(opened):
    tab = opened(page([attention_map(ASPIRIN), attention_map("C")], [attribution()]))
    worst = tab.evaluate(
        """() => {
          const parts = (c) => c.match(/[\\d.]+/g).map(Number);
          const light = (c) => parts(c).slice(0, 3).map((v) => v / 255)
            .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
            .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
          const behind = (e) => {
            for (; e; e = e.parentElement) {
              const c = getComputedStyle(e).backgroundColor;
              if ((parts(c)[3] ?? 1) > 0.5) return c;
            }
            return "rgb(255, 255, 255)";
          };
          const words = [...document.querySelectorAll("main *")].filter((e) =>
            [...e.childNodes].some((c) => c.nodeType === 3 && c.textContent.trim()));
          return Math.min(...words.map((e) => {
            const style = getComputedStyle(e), ink = e.namespaceURI.endsWith("svg") ? style.fill : style.color;
            const [a, b] = [light(ink), light(behind(e))].sort((x, y) => y - x);
            return (a + 0.05) / (b + 0.05);
          }));
        }"""
    )
    assert worst >= 4.5
    snapshot = tab.locator("main").aria_snapshot()
    for words in (
        'combobox "Molecule"', 'tab "Attention" [selected]', 'radio "what an atom attends to" [checked]',
        'slider "Hide below', 'checkbox "include the atom itself" [checked]', 'radiogroup "Layer and head"',
        'radio "layer 2, mean of the heads" [checked]', 'button "O3 next to C1 next to C4"', "- status:",
    ):  # fmt: skip
        assert words in snapshot, words


@pytest.mark.parametrize("width", [320, 700, 1200])
def test_nothing_reaches_beyond_the_window(opened, width):
    tab = opened(page([attention_map(ASPIRIN, heads=8), attention_map("C" * 90)], [attribution()]))
    tab.set_viewport_size({"width": width, "height": 800})
    for _ in range(2):
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        tab.get_by_role("tab", name="Attributions").click()
    tab.locator("select").first.select_option(index=1)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


def test_long_names_of_targets_do_not_widen_the_page_of_a_phone(opened):
    long = replace(attribution(), target="solubility_prob_medium_or_so", method="integrated-gradients")
    maps = [attention_map(ASPIRIN), attention_map("CCO")]
    tab = opened(page(maps, [long], truth=[{"a_long_name_of_a_target": 1.25}, None]))
    tab.set_viewport_size({"width": 390, "height": 800})
    tab.locator("summary").first.click()
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    tab.get_by_role("tab", name="Attributions").click()
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_names_of_heads_do_not_run_together_side_by_side(opened):
    tab = opened(page([attention_map(s, heads=8) for s in (ASPIRIN, CAFFEINE)]))
    tab.set_viewport_size({"width": 1280, "height": 800})
    tab.get_by_label("Compare with").select_option(index=2)
    ends = """[...document.querySelectorAll(".heads")].map((grid) => [...grid.querySelectorAll(".top span")].map(
      (e) => [e.getBoundingClientRect().left, e.getBoundingClientRect().right]
    ))"""
    for names in tab.evaluate(ends):
        assert len(names) == 11
        assert all(left - right > 2 for (_, right), (left, _) in pairwise(names))


def test_reduced_motion_is_respected(opened):
    moving = "getComputedStyle(document.querySelector('svg rect')).transitionDuration"
    assert opened(page([attention_map("CCO")]), reduced_motion="reduce").evaluate(moving) == "0s"
    assert opened(page([attention_map("CCO")]), reduced_motion="no-preference").evaluate(moving) == "0.12s"


WIDGET = """async ([source, contents]) => {
  const module = await import("data:text/javascript;base64," + source);
  window.models = contents.map((content, k) => {
    const values = { content, pinned: null, layer: 1, head: "mean" }, heard = {};
    const model = {
      get: (name) => values[name],
      set: (name, value) => { values[name] = value; },
      save_changes: () => { model.saved = { ...values, content: null }; },
      on: (name, act) => { heard[name] = act; },
      off: (name) => { delete heard[name]; },
      tell: (name, value) => { values[name] = value; heard[`change:${name}`]?.(); },
      heard,
    };
    const el = document.body.appendChild(document.createElement("div"));
    model.clean = module.default.render({ model, el });
    return model;
  });
}"""


def test_the_widget_synchronizes_the_selection(opened):
    tab = opened("<!doctype html><title>a notebook</title>")
    contents = [payload([attention_map(ASPIRIN)]), payload([attention_map(CAFFEINE)])]
    tab.evaluate(WIDGET, [base64.b64encode(str(AttentionWidget._esm).encode()).decode(), contents])
    first, second = (tab.locator(".molattn").nth(k) for k in (0, 1))
    first.locator(".hit").nth(3).click()
    saved = "window.models[{}].saved"
    assert tab.evaluate(saved.format(0)) == {"content": None, "pinned": 3, "layer": 1, "head": "mean"}
    assert tab.evaluate(saved.format(1))["pinned"] is None
    first.get_by_role("radio", name="layer 0, head 2").click()
    assert tab.evaluate(saved.format(0)) == {"content": None, "pinned": 3, "layer": 0, "head": 2}
    tab.evaluate("window.models[0].tell('pinned', 5)")
    tab.evaluate("window.models[0].tell('head', 'max')")
    tab.mouse.move(0, 0)
    assert first.locator("[role=status]").inner_text().startswith("C5 attends most to")
    assert first.locator("h2").inner_text() == "Layer 0, max of the heads"
    assert second.locator("[role=status]").inner_text().startswith("Attention received")
    tab.evaluate("window.models[0].clean()")
    assert tab.evaluate("Object.keys(window.models[0].heard).length") == 0


def test_molecules_of_other_models_may_share_a_page(opened):
    few, many = attention_map("CCO", layers=1, heads=1), attention_map(ASPIRIN, layers=3, heads=4)
    tab = opened(page([many, few]))
    tab.get_by_role("radio", name="layer 2, head 3").click()
    tab.locator("select").first.select_option(index=1)
    assert tab.locator("h2").inner_text() == "Layer 0 (the last), its only head"
    assert tab.locator("[role=radio][aria-checked=true]").count() == 1
    tab.locator("select").first.select_option(index=0)
    assert tab.locator("[role=radio][aria-checked=true]").count() == 1
    atom(tab, 3).hover()
    assert status(tab).startswith("O3 attends most to")


NAMED = ["methane", "caffeine", "aspirin", "salt"]


@pytest.fixture(scope="module")
def several():
    """A page of four molecules with names; each is predicted as -1, and three have a true value."""
    maps = [attention_map(smiles, layers=2, heads=3) for smiles in ("C", CAFFEINE, ASPIRIN, SALT)]
    return page(maps, truth=[{"logS": -1.5}, {"logS": 1.0}, None, {"logS": -0.75}], names=NAMED)


def listed(tab):
    return tab.locator(".index tbody button").all_inner_texts()


def test_the_index_is_sorted_and_searched_and_opens_molecules(opened, several):
    tab = opened(several)
    assert tab.locator(".index table").is_hidden()
    tab.locator("summary").first.click()
    assert listed(tab) == NAMED
    errors = [-1 + 1.5, -1 - 1.0, None, -1 + 0.75]
    shown = tab.locator(".index tbody td:nth-child(5)").all_inner_texts()
    assert [parse_number(text) if text else None for text in shown] == errors
    tab.get_by_role("button", name="error").click()
    assert listed(tab) == ["caffeine", "methane", "salt", "aspirin"]  # without an error: last, either way
    tab.get_by_role("button", name="error").press("Enter")
    assert listed(tab) == ["salt", "methane", "caffeine", "aspirin"]
    tab.locator(".index").get_by_role("button", name="caffeine").click()
    assert tab.locator("h1").inner_text() == f"caffeine: {CAFFEINE}"
    assert tab.locator(".index [aria-current]").inner_text() == "caffeine"
    tab.get_by_role("button", name="Previous").click()
    assert tab.locator("h1").inner_text() == "methane: C"
    tab.get_by_label("Find").fill("a")
    assert listed(tab) == ["salt", "methane", "caffeine", "aspirin"]
    tab.get_by_label("Find").fill("aspirin")
    assert listed(tab) == ["aspirin"]
    tab.get_by_role("button", name="Next", exact=True).click()
    assert tab.locator("h1").inner_text() == f"aspirin: {ASPIRIN}"
    assert tab.get_by_role("button", name="Next", exact=True).is_disabled()


def test_the_index_is_searched_by_name_in_any_case_and_by_smiles_as_it_is_written(opened):
    tab = opened(page([attention_map(s) for s in ("C[C@H](N)C(=O)O", "c1ccccc1")], names=["L-Ala", "benzene"]))
    tab.locator("summary").first.click()
    for words, found in (("ala", ["L-Ala"]), ("BENZ", ["benzene"]), ("c1c", ["benzene"]), ("", ["L-Ala", "benzene"])):
        tab.get_by_label("Find").fill(words)
        assert listed(tab) == found
    tab.get_by_label("Find").fill("C1C")
    assert listed(tab) == []
    assert tab.locator(".index tbody").inner_text().strip() == "No name and no SMILES contains \u201cC1C\u201d."


def column_heads(tab):
    return tab.locator(".index thead").inner_text().strip().split("\t")


def test_the_index_shows_one_target_by_its_name_which_is_chosen_there_or_with_an_attribution(opened):
    prediction = {"s_prob_low": 0.2, "s_prob_high": 0.7, "s_prob_mid": 0.1, "toxic": 0.25, "logS": -1.0}
    maps = [replace(attention_map(s), prediction=prediction, units={"logS": "mol/L"}) for s in (ASPIRIN, CAFFEINE)]
    truth = [{"s": "low", "toxic": "yes", "logS": -3.0}, {"s": "high"}]
    classes = {"s": ("low", "high", "mid"), "toxic": ("no", "yes")}
    found = [
        Attribution(m.smiles, m.symbols, np.ones(m.num_atoms), "additive", name, 1.0)
        for m in maps
        for name in ("s_prob_high", "logS")
    ]
    tab = opened(page(maps, found, truth, ["A", "C"], classes))
    tab.locator("summary").first.click()
    body = tab.locator(".index tbody tr").first
    cells = lambda: [text.strip() for text in body.inner_text().split("\t")][1:]  # noqa: E731
    assert column_heads(tab)[2:] == ["predicted s", "p(predicted s)", "true s", "error of s: 1 \u2212 p(true class)"]
    assert cells() == ["A", "high", "0.700", "low", "0.800"]
    tab.get_by_role("button", name="error of s").click()
    assert listed(tab) == ["A", "C"]
    tab.locator(".index").get_by_label("Target").select_option("toxic")
    assert column_heads(tab)[2:4] == ["predicted toxic", "p(toxic = yes)"]
    assert cells() == ["A", "no", "0.250", "yes", "0.750"]
    tab.get_by_role("tab", name="Attributions").click()
    tab.get_by_label("Method").select_option(label="additive, of logS")
    assert column_heads(tab)[2:] == ["predicted logS (mol/L)", "true logS (mol/L)", "error of logS (mol/L)"]
    assert cells() == ["A", "\u22121.000", "\u22123.000", "2.000"]
    assert tab.locator(".index").get_by_label("Target").input_value() == "logS"
    tab.get_by_label("Method").select_option(label="additive, of s_prob_high")
    assert column_heads(tab)[2] == "predicted s"


def test_the_address_has_molecule_layer_and_head(opened, several):
    tab = opened(several)
    assert "#" not in tab.url
    tab.get_by_role("radio", name="layer 0, head 2").click()
    tab.get_by_role("button", name="Next", exact=True).click()
    assert tab.url.endswith("#molecule=1&layer=0&head=2")
    tab.evaluate("location.hash = '#molecule=2&layer=1&head=max'")
    tab.get_by_role("heading", name=f"aspirin: {ASPIRIN}").wait_for()
    assert tab.get_by_role("radio", name="layer 1, max of the heads").get_attribute("aria-checked") == "true"
    tab.evaluate("location.hash = '#molecule=99&layer=99&head=<img>'")
    tab.get_by_role("heading", name="salt: ").wait_for()
    assert tab.locator("h2", has_text="Layer 1 (the last)").count() == 1


def test_two_molecules_are_shown_side_by_side_at_one_layer_and_head(opened, several):
    tab = opened(several)
    tab.get_by_label("Compare with").select_option(label="2. caffeine")
    titles = tab.locator(".title")
    assert titles.all_inner_texts() == ["methane: C", f"caffeine: {CAFFEINE}"]
    for side, head in ((0, 1), (1, 2)):
        tab.get_by_role("radio", name=f"layer 0, head {head}").nth(side).click()
        for other in (0, 1):
            radio = tab.get_by_role("radio", name=f"layer 0, head {head}").nth(other)
            assert radio.get_attribute("aria-checked") == "true"
    tab.get_by_role("button", name="Next", exact=True).click()
    assert titles.all_inner_texts() == [f"caffeine: {CAFFEINE}"] * 2
    assert status_of(tab, 0) == status_of(tab, 1)
    tab.get_by_label("Compare with").select_option(label="none")
    assert titles.count() == 1


def status_of(tab, side):
    return tab.locator("[role=status]").nth(side).inner_text()


SCREENS = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "forced": {"forced_colors": "active"},
    "forced, dark": {"forced_colors": "active", "color_scheme": "dark"},
}


def violations(tab):
    axe = pytest.importorskip("axe_playwright_python.base")
    tab.evaluate(axe.AXE_SCRIPT)
    found = tab.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
    return [(v["id"], v["nodes"][0]["html"][:200]) for v in found]


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("width", [1280, 800, 390])
def test_there_are_no_accessibility_findings_on_any_screen(opened, several, width, screen):
    tab = opened(several, **SCREENS[screen])
    tab.set_viewport_size({"width": width, "height": 800})
    tab.locator("summary").first.click()
    tab.get_by_label("Compare with").select_option(index=2)
    atom(tab, 0).click()
    assert violations(tab) == []
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    other = replace(attribution(adds_up=False), method="rollout", values=np.linspace(0.0, 0.2, 13), has_unit=False)
    tab = opened(page([attention_map(ASPIRIN)], [attribution(), other]), **SCREENS[screen])
    tab.set_viewport_size({"width": width, "height": 800})
    tab.get_by_role("tab", name="Attributions").click()
    tab.get_by_role("button", name="carboxylic acid").click()
    assert violations(tab) == []
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


def luminance(colour):
    parts = [int(x) / 255 for x in re.findall(r"\d+", colour)[:3]]
    return np.dot(
        [0.2126, 0.7152, 0.0722], [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    )


def contrast(*colours):
    low, high = sorted(map(luminance, colours))
    return (high + 0.05) / (low + 0.05)


def test_nothing_moves_under_the_pointer(opened):
    """A sentence of two lines for one atom and of one for the next would carry the atom away from a click."""
    attention = attention_map(ASPIRIN)
    values = np.linspace(-0.5, 1.0, len(attention.labels))
    terms = Attribution(ASPIRIN, attention.symbols, values, "additive", "logS", 1.0, "mol/L", None, {}, False)
    tab = opened(page([with_virtual_node(attention)], [terms]))
    places = "[...document.querySelectorAll('.hit, .groups')].map((e) => e.getBoundingClientRect().y + scrollY)"
    for width in (1200, 960, 390):
        tab.set_viewport_size({"width": width, "height": 1000})
        for name in ("Attention", "Attributions"):
            tab.get_by_role("tab", name=name).click()
            tab.mouse.move(1, 1)
            initial = tab.evaluate(places)
            for target in (atom(tab, 0), atom(tab, 7), *tab.locator(".groups button").all()):
                target.hover()
                assert tab.evaluate(places) == initial, (width, name)
            if name == "Attention":
                tab.get_by_text("what attends to it").click()
                tab.locator(".groups button").last.hover()
                assert tab.evaluate(places) == initial, (width, name)


@pytest.mark.parametrize("screen", SCREENS)
def test_a_drawing_is_legible_on_every_screen(opened, screen):
    tab = opened(page([attention_map(ASPIRIN)], [attribution()]), **SCREENS[screen])
    tab.get_by_role("tab", name="Attributions").click()
    computed = "getComputedStyle(document.querySelector('{}')).{}"
    ground = tab.evaluate(computed.format("main", "backgroundColor"))
    letters, bonds = tab.evaluate(computed.format(".letter", "fill")), tab.evaluate(computed.format(".bond", "stroke"))
    fills = tab.evaluate("[...document.querySelectorAll('.disc')].map((e) => e.getAttribute('fill'))")
    assert len(set(fills)) > 5
    assert min(contrast(letters, fill) for fill in [ground, *fills]) >= 4.5
    assert min(contrast(bonds, fill) for fill in [ground, *fills]) >= 4.5
    number = tab.evaluate(computed.format(".number", "fill"))
    assert contrast(number, ground) >= 4.5
    assert (luminance(ground) < 0.1) == (screen in ("dark", "forced, dark"))
    # No atom with a value has the color of the ground: 0.1 of the largest is 1.05 to 1.
    assert contrast(fills[12], ground) > 1.9


def test_a_page_follows_the_screen_and_files_have_the_colours_of_paper(opened):
    tab = opened(page([attention_map(ASPIRIN)]))
    first = "document.querySelector('.disc').getAttribute('fill')"
    white = tab.evaluate(first)
    tab.emulate_media(color_scheme="dark")
    wait_until(lambda: tab.evaluate(first) != white)
    dark = tab.evaluate("document.querySelector('.disc').getAttribute('fill')")
    with tab.expect_download() as download:
        tab.get_by_role("button", name="Save SVG").click()
    svg = ET.fromstring(download.value.path().read_bytes())
    rects = svg.findall("{http://www.w3.org/2000/svg}rect")
    assert rects[0].get("fill") == "rgb(255,255,255)"
    discs = [e.get("fill") for e in rects if e.get("class") == "disc"]
    assert len(discs) == 13 and dark not in discs
    assert tab.evaluate("document.querySelector('.disc').getAttribute('fill')") == dark
    tab.emulate_media(media="print")
    wait_until(lambda: tab.evaluate(first) == white)
    tab.emulate_media(media="screen")
    wait_until(lambda: tab.evaluate(first) == dark)


LABELS = """() => {
  const boxes = (query) => [...document.querySelectorAll(query)]
    .filter((e) => e.getAttribute("visibility") !== "hidden")
    .map((e) => e.getBoundingClientRect()).map((b) => [b.x, b.y, b.right, b.bottom]);
  return [boxes("text.number"), boxes(".disc")];
}"""


@pytest.mark.parametrize("width", [1280, 390])
def test_labels_are_readable_and_cover_nothing(opened, width):
    tab = opened(page([attention_map(ASPIRIN)]))
    tab.set_viewport_size({"width": width, "height": 800})
    tab.wait_for_timeout(100)
    labels, discs = map(np.array, tab.evaluate(LABELS))
    size = float(tab.evaluate("document.querySelector('text.number').getBoundingClientRect().height"))
    assert size >= 9
    assert len(labels) >= 0.7 * len(discs)
    # The box of a line of text is higher than its digits.
    middle, half = (labels[:, :2] + labels[:, 2:]) / 2, (labels[:, 2:] - labels[:, :2]) / 2 * [0.9, 0.6]
    apart = (np.abs(middle[:, None] - middle) > half[:, None] + half).any(-1)
    assert apart[~np.eye(len(labels), dtype=bool)].all()
    centre, radius = (discs[:, :2] + discs[:, 2:]) / 2, (discs[:, 2] - discs[:, 0]) / 2
    outside = np.maximum(np.abs(middle[:, None] - centre) - half[:, None], 0)
    assert (np.linalg.norm(outside, axis=-1) > 0.9 * radius).all()


def test_zoom_shows_more_and_the_zoomed_drawing_is_dragged(opened):
    tab = opened(page([attention_map(PEPTIDE)]))
    disc = tab.locator(".disc").first
    before = disc.bounding_box()["width"]
    assert tab.get_by_role("button", name="Zoom out").is_disabled()
    tab.get_by_role("button", name="Zoom in").click()
    tab.get_by_role("button", name="Zoom in").click()
    assert disc.bounding_box()["width"] == pytest.approx(1.6**2 * before, rel=0.05)
    at = disc.bounding_box()
    box = tab.locator("svg.molecule").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    tab.mouse.move(x, y)
    tab.mouse.down()
    tab.mouse.move(x + 30, y + 20, steps=5)
    tab.mouse.up()
    moved = disc.bounding_box()
    assert (moved["x"] - at["x"], moved["y"] - at["y"]) == (pytest.approx(30, abs=2), pytest.approx(20, abs=2))
    assert tab.locator(".hit[aria-pressed=true]").count() == 0, "a drag is no click"
    # The keyboard reaches atoms out of sight.
    for i in (0, attention_map(PEPTIDE).num_atoms - 1):
        atom(tab, i).focus()
        seen = atom(tab, i).bounding_box()
        assert box["x"] <= seen["x"] <= box["x"] + box["width"] and box["y"] <= seen["y"] <= box["y"] + box["height"]
    tab.keyboard.press("0")
    assert disc.bounding_box()["width"] == pytest.approx(before, rel=0.01)
    tab.keyboard.press("+")
    assert disc.bounding_box()["width"] == pytest.approx(1.6 * before, rel=0.01)
    tab.get_by_role("button", name="Whole molecule").click()
    tab.mouse.move(x, y)
    tab.keyboard.down("Control")
    tab.mouse.wheel(0, -200)
    tab.keyboard.up("Control")
    assert disc.bounding_box()["width"] == pytest.approx(1.002**200 * before, rel=0.02)


def test_the_drawing_stays_in_sight_on_a_phone(opened):
    tab = opened(page([attention_map(ASPIRIN)]))
    tab.set_viewport_size({"width": 390, "height": 800})
    tab.locator("canvas[role=application]").scroll_into_view_if_needed()
    box = tab.locator("svg.molecule").bounding_box()
    assert 0 <= box["y"] < 20 and box["width"] > 360
    assert tab.locator(HEAT).bounding_box()["y"] < 800


def test_molecule_and_heads_are_shown_side_by_side_on_a_laptop(opened):
    tab = opened(page([attention_map(ASPIRIN, layers=4, heads=8)]))
    tab.set_viewport_size({"width": 1280, "height": 720})
    drawing, heads = (tab.locator(query).bounding_box() for query in ("svg.molecule", ".heads"))
    assert drawing["x"] + drawing["width"] <= heads["x"]
    assert drawing["y"] + drawing["height"] <= 720 and heads["y"] + heads["height"] <= 720


def test_groups_have_their_sums_and_outline_their_atoms(opened):
    attention = attention_map(ASPIRIN)
    tab = opened(page([attention], [attribution()]))
    acid = tab.get_by_role("button", name="carboxylic acid")
    atom(tab, 3).click()
    tab.mouse.move(2, 2)
    shown = float(acid.locator("b").inner_text())
    assert shown == pytest.approx(attention.matrix()[3, 10:].sum(), abs=0.002)
    acid.hover()
    assert status(tab).startswith("O3 attends to carboxylic acid (C10, O11, O12): 0.")
    acid.click()
    tab.mouse.move(2, 2)
    assert acid.get_attribute("aria-pressed") == "true"
    widths = tab.evaluate("[...document.querySelectorAll('.disc')].map((e) => e.getAttribute('stroke-width'))")
    assert [i for i, width in enumerate(widths) if width == "3"] == [10, 11, 12]
    tab.get_by_role("tab", name="Attributions").click()
    ring = tab.get_by_role("button", name="aromatic ring")
    values = np.linspace(-0.5, 1.0, 13)
    assert ring.locator("b").inner_text() == f"{values[4:10].sum():+.2f}"
    ring.hover()
    assert f"{values[4:10].sum():.4f} mol/L in sum" in status(tab)
    assert tab.locator(".terms tr.on").count() == 1 + 6, "of the pinned atom and of the ring"


def test_the_smiles_is_linked_to_the_drawing(opened):
    tab = opened(page([attention_map("C[C@H](N)C(=O)Oc1ccc(Cl)cc1[N+](=O)[O-]")]))
    atoms = tab.locator(".smiles .atom")
    assert atoms.all_inner_texts() == ["C", "[C@H]", "N", "C", "O", "O", *"cccc", "Cl", *"cc", "[N+]", "O", "[O-]"]
    atoms.nth(10).hover()
    assert status(tab).startswith("Cl10 attends most to")
    atoms.nth(10).click()
    assert atom(tab, 10).get_attribute("aria-pressed") == "true"
    atom(tab, 1).hover()
    assert atoms.nth(1).get_attribute("class") == "atom on"
    colours = tab.evaluate(
        "[document.querySelectorAll('.smiles .atom'), document.querySelectorAll('.disc')]"
        ".map((all, k) => [...all]"
        ".map((e) => (k ? e.getAttribute('fill') : e.style.backgroundColor.replaceAll(' ', ''))))"
    )
    assert colours[0] == colours[1]
    # Explicit hydrogens are no atoms of the drawing: nothing is linked to a wrong one.
    tab = opened(page([attention_map("[H]C([H])([H])O")]))
    assert tab.locator(".smiles .atom").count() == 0 and tab.locator("h1").inner_text() == "[H]C([H])([H])O"


def test_arcs_join_the_atoms_with_the_largest_weights(opened):
    attention = attention_map(ASPIRIN, layers=2, heads=3)
    tab = opened(page([attention]))
    assert tab.locator(".molecule g path").count() == 0 and tab.locator(".legend").is_hidden()
    tab.get_by_text("arcs", exact=True).click()
    assert tab.locator(".molecule g path").count() == 13
    atom(tab, 3).click()
    tab.mouse.move(2, 2)
    weights = attention.matrix()[3].copy()
    weights[3] = 0
    arcs = tab.locator(".molecule g path").all()
    assert len(arcs) == 8
    widths = [float(arc.get_attribute("stroke-width")) for arc in arcs]
    assert widths == sorted(widths, reverse=True)
    places = np.array(payload([attention])["molecules"][0]["drawing"]["nodes"])[:, :2]
    for arc, sender in zip(arcs, np.argsort(-weights)[:8], strict=True):
        x, y, _, _, u, v = (float(number) for number in re.findall(r"-?[\d.]+", arc.get_attribute("d")))
        assert np.linalg.norm(places[3] - [x, y]) == pytest.approx(13, abs=0.3), "from the edge of the receiver's disc"
        assert np.linalg.norm(places[sender] - [u, v]) == pytest.approx(13, abs=0.3)
    tab.get_by_text("arcs by head").click()
    colours = tab.evaluate("[...document.querySelectorAll('.molecule g path')].map((e) => e.getAttribute('stroke'))")
    assert len(colours) == 9 and len(set(colours)) == 3
    assert [text.strip() for text in tab.locator(".legend b").all_inner_texts()] == ["head 0", "head 1", "head 2"]
    assert "of 3:" not in tab.locator(".legend").inner_text()
    assert violations(tab) == []


def test_of_more_than_eight_heads_the_arcs_are_of_the_eight_around_the_chosen_one_and_the_legend_says_so(opened):
    tab = opened(page([attention_map(ASPIRIN, layers=1, heads=10)]))
    tab.get_by_text("arcs by head").click()
    colours = "[...document.querySelectorAll('.molecule g path')].map((e) => e.getAttribute('stroke'))"
    keys = tab.locator(".legend b")
    assert [text.strip() for text in keys.all_inner_texts()] == [f"head {k}" for k in range(8)]
    assert "Heads 0 to 7 of 10: choose another head" in tab.locator(".legend").inner_text()
    assert len(set(tab.evaluate(colours))) == 8
    overflow = "(e) => e.scrollWidth - e.clientWidth"
    assert tab.locator(".legend").evaluate(overflow) <= 0, "the names of heads are wrapped"
    tab.get_by_title("layer 0, head 9").click()
    assert [text.strip() for text in keys.all_inner_texts()] == ["head 8", "head 9"]
    assert "Heads 8 to 9 of 10" in tab.locator(".legend").inner_text()
    assert len(set(tab.evaluate(colours))) == 2
    assert violations(tab) == []


def test_a_tap_pins_an_atom_and_a_second_tap_shows_the_pair(opened):
    attention = attention_map(ASPIRIN)
    tab = opened(page([attention]), has_touch=True)
    atom(tab, 3).tap()
    assert status(tab).startswith("O3 attends most to")
    atom(tab, 7).tap()
    assert status(tab).startswith("O3 attends to C7: ")
    assert atom(tab, 3).get_attribute("aria-pressed") == "true"
    atom(tab, 7).tap()
    assert status(tab).startswith("C7 attends most to")
    atom(tab, 7).tap()
    assert tab.locator(".hit[aria-pressed=true]").count() == 0


def test_all_methods_are_side_by_side_with_their_faithfulness(opened):
    others = [replace(attribution(adds_up=False), method=f"method {k}", faithfulness=f"tau 0.{k}") for k in (3, 5)]
    tab = opened(page([attention_map(ASPIRIN)], [attribution(), *others]))
    tab.get_by_role("tab", name="Attributions").click()
    cards = tab.locator(".methods figure")
    assert cards.count() == 3
    assert cards.locator("figcaption").all_inner_texts() == ["not measured", "tau 0.3", "tau 0.5"]
    cards.nth(2).get_by_role("button").click()
    assert "method 5" in tab.locator("h2").first.inner_text()
    assert tab.evaluate("document.activeElement.textContent") == "method 5"
    assert tab.locator(".methods [aria-pressed=true]").inner_text() == "method 5"
    tab.locator(".methods .disc").nth(4).hover()
    assert status(tab).startswith("C4 contributes")
    assert tab.locator(".methods .hit").count() == 0, "small drawings are no tab stops"


def test_every_tab_stop_does_something_and_keeps_its_keys_from_jupyterlab(opened, several):
    tab = opened(several)
    tab.get_by_label("Compare with").select_option(index=2)
    without = tab.evaluate(
        """[...document.querySelectorAll("button, input, select, summary, [tabindex]")]
           .filter((e) => e.dataset.lmSuppressShortcuts !== "true").map((e) => e.outerHTML.slice(0, 99))"""
    )
    assert without == []
    tab.locator("body").press("Tab")
    seen = set()
    for _ in range(60):
        stop = tab.evaluate(
            "(([e]) => [e.tagName, e.className.baseVal ?? e.className, e.ariaLabel || e.textContent || e.title,"
            " e.getBoundingClientRect().width])([document.activeElement])"
        )
        if stop[0] == "BODY":
            break
        assert stop[3] > 0 and (stop[2] or stop[0] in ("INPUT", "SELECT")), stop
        seen.add(stop[0])
        tab.keyboard.press("Tab")
    assert {"BUTTON", "INPUT", "SUMMARY", "rect", "CANVAS"} <= seen
    assert not {"svg", "FIGURE", "DIV"} & seen


def test_pointing_at_an_atom_of_100_costs_less_than_16_ms_of_script(opened):
    names = ["additive", "occlusion", "cam", "rollout"]
    n = 100
    of = Attribution("C" * n, ("C",) * n, np.linspace(-1, 1, n), "", "logS", 1.0)
    tab = opened(page([attention_map("C" * n, layers=4, heads=8)], [replace(of, method=name) for name in names]))
    for name in ("Attention", "Attributions"):
        tab.get_by_role("tab", name=name).click()
        times = tab.evaluate(
            """() => [...document.querySelectorAll(".hit")].slice(0, 41).map((hit) => {
              const begin = performance.now();
              hit.dispatchEvent(new PointerEvent("pointerover", { bubbles: true }));
              return performance.now() - begin;
            })"""
        )
        assert min(times) < 16, f"{name}: the least, whatever else the machine does"
