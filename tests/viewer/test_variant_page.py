"""The page of variants: its data, that it runs only its own code, and its behavior in a browser."""

import base64
import hashlib
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from molattn.chem import Effect, read_smiles, substituent_scan
from molattn.viewer.web.document import source
from molattn.viewer.web.variants import Details, page_of_variants, variants_payload
from tests.viewer.conftest import wait_until
from tests.viewer.test_page import HOSTILE, Elements, content

PARENT = "Cc1ccccc1O"


def what_if(smiles=PARENT, name="logS", goal="maximize", sign=1.0):
    """A result as of `molattn.inference`, with made-up numbers: change k / 10 - 1 for variant k."""
    rows = tuple(
        SimpleNamespace(
            variant=variant,
            prediction=sign * (k / 10 - 3),
            change=sign * (k / 10 - 1),
            lower=sign * (k / 10 - 1) - 0.55,
            upper=sign * (k / 10 - 1) + 0.55,
            in_domain=k % 3 != 0,
            similarity=0.5,
            accessibility=1.5 + k / 100,
            alerts=("aniline",) if k % 4 == 0 else (),
            new_alerts=("aniline",) if k % 8 == 0 else (),
            effect=Effect(12, 0.25, 0.1) if k % 2 else None,
        )
        for k, variant in reversed([*enumerate(substituent_scan(smiles))])
    )
    return SimpleNamespace(
        smiles=smiles,
        target=name,
        unit="mol/L",
        goal=goal,
        level=0.9,
        prediction=-2.0,
        measured=-1.9,
        known=True,
        rows=rows,
        source="matched pairs",
        molecules=97,
        agreement_text="664 held-out matched pairs of 97 test molecules: r 0.97",
        accessibility=1.4,
        alerts=(),
    )


def trade_offs(*results):
    rows = tuple(zip(*(r.rows for r in results), strict=True))
    front = tuple(k < 2 for k in range(len(rows)))
    return SimpleNamespace(names=[r.target for r in results], results=results, rows=rows, front=front)


def details(found, size):
    """Contributions of 0.1 for each atom, more for the last one; attention that is uniform."""
    texts = [found.results[0].smiles, *(row[0].variant.smiles for row in found.rows[:size])]
    counts = [read_smiles(text).GetNumAtoms() for text in texts]
    return [
        Details(np.linspace(0.1, 0.2, n), np.full(n, 1 / n), n / 10, "the attention model", "additive", "kendall 0.7")
        for n in counts
    ]


def document(*results, size=12):
    found = trade_offs(*(results or (what_if(),)))
    listed = range(min(size, len(found.rows)))
    return page_of_variants(found, listed, [details(found, size)] * len(found.results))


def test_shared_atoms_are_at_the_same_places():
    found = trade_offs(what_if())
    data = variants_payload(found, range(20), [details(found, 20)])
    places = np.array(data["parent"]["drawing"]["nodes"])[:, :2]
    for v in data["variants"]:
        nodes = np.array(v["molecule"]["drawing"]["nodes"])[:, :2]
        shared = [(i, p) for i, p in enumerate(v["parent_atoms"]) if p >= 0]
        moved = np.array([nodes[i] - places[p] for i, p in shared])
        # The frame of a drawing begins at its own corner: all shared atoms are moved alike.
        np.testing.assert_allclose(moved, moved[:1].repeat(len(moved), 0), atol=3)  # a bond is 44 long
        assert v["molecule"]["symbols"] == [a.GetSymbol() for a in read_smiles(v["molecule"]["smiles"]).GetAtoms()]


def test_only_the_page_s_own_code_may_run_and_it_makes_no_markup_of_text():
    text = document()
    elements = Elements(text)
    ((policy, _),) = [e for e in elements.all("meta") if e[0].get("http-equiv") == "Content-Security-Policy"]
    ((_, script),) = [(a, t) for a, t in elements.all("script") if a["type"] == "module"]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy["content"] and "default-src 'none'" in policy["content"]
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
    code = source("variants.js")
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|new Function|javascript:", code)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_stay_in_the_data(text):
    result = what_if(name=text)
    result.unit = result.agreement_text = text
    result.rows = tuple(
        SimpleNamespace(**{**vars(row), "alerts": (text,), "new_alerts": (text,)}) for row in result.rows
    )
    result.rows[0].variant = replace(result.rows[0].variant, name=text)
    shown = document(result)
    assert [name for name, _, _ in Elements(shown).found] == [name for name, _, _ in Elements(document()).found]
    assert len(content(shown)["variants"]) == 12


def test_what_is_not_known_is_null():
    result = what_if()
    for row in result.rows:
        row.in_domain = row.similarity = row.accessibility = row.effect = None
    result.known = None
    found = trade_offs(result)
    data = variants_payload(found, range(3), [[Details()] * 4])
    assert data["properties"][0]["known"] is None
    assert all(v["accessibility"] is None and v["properties"][0]["values"] is None for v in data["variants"])


def names(tab):
    return [button.locator("span").first.inner_text() for button in tab.locator(".choose").all()]


def test_a_variant_is_shown_next_to_its_parent(opened):
    tab = opened(document())
    assert len(names(tab)) == 12
    assert "664 held-out matched pairs" in tab.locator(".trust").inner_text()
    assert "97 held-out molecules" in tab.locator(".trust").inner_text()
    tab.locator(".choose").nth(1).click()
    compare = tab.locator(".compare")
    result = what_if()
    assert result.rows[1].variant.smiles in compare.inner_text()
    change, low, high = result.rows[1].change, result.rows[1].lower, result.rows[1].upper
    assert f"+{change:.2f}, 90% interval +{low:.2f} to +{high:.2f}" in compare.inner_text()
    assert compare.locator("svg.molecule").count() == 2
    words = compare.locator("p").last.inner_text().replace("\u2212", "-")
    assert words.startswith("Contributions by additive to the prediction of the attention model (mol/L): ")
    shared, new, lost, rest, total = map(float, re.findall(r"[-+]?\d+\.\d+", words.partition("Faithfulness")[0]))
    assert shared + new - lost + rest == pytest.approx(total, abs=0.02)
    compare.get_by_text("the difference").click()
    assert "difference of the contributions" in compare.locator("svg.key").nth(1).text_content()
    compare.get_by_text("attention received").click()
    assert "attention received" in compare.locator("svg.key").nth(0).text_content()
    assert tab.locator(".choose[aria-pressed=true]").count() == 1


def test_a_model_without_attributions_shows_both_molecules_plain(opened):
    found = trade_offs(what_if())
    tab = opened(page_of_variants(found, range(3), [[Details()] * 4]))
    tab.locator(".choose").first.click()
    fills = tab.evaluate("[...document.querySelectorAll('.compare svg > rect')].map((e) => e.getAttribute('fill'))")
    assert set(fills) <= {"rgb(255,255,255)", "none", "transparent"}


def test_a_variant_without_contributions_says_how_to_get_them(opened):
    found = trade_offs(what_if())
    own = details(found, 3)
    own[2] = Details(None, own[2].received, computed=False)
    tab = opened(page_of_variants(found, range(3), [own]))
    compare = tab.locator(".compare")
    tab.locator(".choose").first.click()
    assert "molattn view" not in compare.inner_text() and "what each atom contributes" in compare.inner_text()
    tab.locator(".choose").nth(1).click()
    variant = found.rows[1][0].variant.smiles
    assert f"molattn view RUN --smiles '{PARENT}' --smiles '{variant}'" in compare.inner_text()
    assert "what each atom contributes" not in compare.inner_text()
    assert compare.locator("svg.molecule").count() == 2


def test_the_list_is_sorted_and_filtered(opened):
    tab = opened(document(size=100))
    every = names(tab)
    tab.get_by_role("button", name=re.compile("^change")).click()
    assert names(tab) == every  # the best first, as before
    assert tab.locator("th[aria-sort=descending]").inner_text().strip().startswith("change")
    tab.get_by_role("button", name=re.compile("^change")).click()
    assert names(tab) == every[::-1]
    rows = what_if().rows
    tab.get_by_text("hide those of unknown direction").click()
    sure = [row for row in rows if row.lower > 0 or row.upper < 0]
    assert len(names(tab)) == len(sure) < len(rows)
    tab.get_by_text("hide those unlike the training set").click()
    assert len(names(tab)) == sum(row.in_domain for row in sure)


def test_what_an_atom_is_painted_with_is_the_best_and_the_worst_of_the_listed_variants():
    found = trade_offs(what_if(), what_if(name="logD", goal="minimize", sign=-1.0))
    rows = range(3, 9)
    data = variants_payload(found, rows, [[Details()] * 7] * 2)
    for t, (best, worst) in enumerate([(max, min), (min, max)]):
        for atom in range(len(data["parent"]["symbols"])):
            changes = [found.rows[k][t].change for k in rows if atom in found.rows[k][t].variant.atoms]
            painted = [data["properties"][t][kind][atom] for kind in ("best", "worst")]
            assert painted == ([pytest.approx(f(changes)) for f in (best, worst)] if changes else [None, None])


def test_a_list_that_is_empty_says_why(opened):
    result = what_if()
    for row in result.rows:
        row.lower, row.upper, row.in_domain = -1.0, 1.0, False
    tab = opened(document(result, size=100))
    says = tab.locator("tbody .none")
    assert says.count() == 0
    tab.get_by_text("hide those of unknown direction").click()
    assert says.inner_text() == "No variant is left: those of unknown direction are hidden."
    tab.get_by_text("hide those unlike the training set").click()
    tab.locator(".parents .hit").first.click()
    assert says.inner_text() == (
        "No variant at C0 is left: those unlike the training set and those of unknown direction are hidden."
    )
    tab.locator(".parents .hit").nth(1).click()
    assert says.inner_text() == "There is no variant at C1."


def test_a_part_of_the_variants_says_how_all_are_listed(opened):
    total = len(what_if().rows)
    for size in (12, total):
        text = opened(document(size=size)).locator(".bar .name").inner_text()
        assert text.startswith(f"{size} of {total} variants.")
        assert ("-n" in text) == (size < total)


def test_an_atom_has_its_variants_alone_by_pointer_and_by_key(opened):
    tab = opened(document(size=100))
    expected = sum(0 in row.variant.atoms for row in what_if().rows)
    tab.locator(".parents .hit").first.click()
    assert len(names(tab)) == expected
    assert "Variants at C0" in tab.locator("[role=status]").first.inner_text()
    tab.keyboard.press("Escape")
    assert len(names(tab)) == len(what_if().rows)
    tab.locator(".parents .hit").first.focus()
    tab.keyboard.press("Enter")
    assert len(names(tab)) == expected
    tab.locator(".choose").first.focus()
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("Enter")
    assert tab.locator(".choose").nth(1).get_attribute("aria-pressed") == "true"


def test_several_properties_have_a_choice_and_a_front(opened):
    tab = opened(document(what_if(), what_if(name="logD", goal="minimize", sign=-1.0)))
    assert tab.locator("select option").all_inner_texts() == ["logS", "logD"]
    tab.locator("select").select_option("logD")
    assert "best change of logD" in tab.locator(".parents svg.key").first.text_content()
    tab.get_by_text("only the Pareto front").click()
    assert len(names(tab)) == 2


def test_a_phone_needs_no_sideways_scroll(opened):
    tab = opened(document())
    tab.set_viewport_size({"width": 390, "height": 800})
    tab.locator(".choose").first.click()
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    boxes = tab.locator("fieldset label span").evaluate_all(
        "found => found.map(x => x.getBoundingClientRect()).map(r => [r.left, r.right, r.top, r.bottom])"
    )
    for i, (left, right, top, bottom) in enumerate(boxes):
        for a, b, c, d in boxes[:i]:
            assert right <= a + 2 or b <= left + 2 or bottom <= c or d <= top  # neighbors share their border


def test_a_filtered_or_sorted_list_starts_at_its_top(opened):
    tab = opened(document(size=100))
    tab.evaluate("document.querySelector('.list').style.maxHeight = '80px'")
    for change in (
        lambda: tab.get_by_role("button", name=re.compile("^change")).click(),
        lambda: tab.locator(".parents .hit").first.click(),
        lambda: tab.get_by_text("hide those unlike the training set").click(),
    ):
        tab.evaluate("document.querySelector('.list').scrollTop = 30")
        assert tab.evaluate("document.querySelector('.list').scrollTop") == 30
        change()
        assert tab.evaluate("document.querySelector('.list').scrollTop") == 0


@pytest.mark.parametrize("properties", [1, 3])
def test_the_whole_list_is_printed_in_the_width_of_a_page(opened, properties):
    results = [what_if(name=f"log of property {k}") for k in range(properties)]
    tab = opened(document(*results, size=100))
    tab.set_viewport_size({"width": 718, "height": 1000})  # A4 without its margins
    tab.emulate_media(media="print")
    sizes = "(e) => [e.clientWidth, e.scrollWidth, e.clientHeight, e.scrollHeight]"
    width, all_width, height, all_height = tab.locator(".list").evaluate(sizes)
    assert (width, height) == (all_width, all_height) and height > 2000
    assert tab.evaluate("document.documentElement.scrollWidth") <= 718
    assert tab.locator(".filters .name").is_visible()
    assert tab.evaluate("getComputedStyle(document.querySelector('.list table')).breakInside") == "auto"


@pytest.mark.parametrize("screen", [{"color_scheme": "light"}, {"color_scheme": "dark"}, {"forced_colors": "active"}])
@pytest.mark.parametrize("width", [1280, 800, 390])
def test_there_are_no_accessibility_findings_on_any_screen(opened, width, screen):
    axe = pytest.importorskip("axe_playwright_python.base")
    tab = opened(document(), **screen)
    tab.set_viewport_size({"width": width, "height": 800})
    tab.locator(".choose").first.click()
    tab.evaluate(axe.AXE_SCRIPT)
    found = tab.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
    assert [(v["id"], v["nodes"][0]["html"][:200]) for v in found] == []
    if "forced_colors" in screen:
        return
    fills = "[...document.querySelectorAll('.parents .disc')].map((e) => e.getAttribute('fill')).join()"
    before = tab.evaluate(fills)
    tab.emulate_media(color_scheme="light" if screen["color_scheme"] == "dark" else "dark")
    wait_until(lambda: tab.evaluate(fills) != before)
