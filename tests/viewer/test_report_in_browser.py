"""The report in a browser: the plot by pointer and keyboard, sorting, searching, the panel, and accessibility."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from molattn.chem import molecule_graph
from molattn.explain import Attribution
from molattn.viewer.report.comparison import align, comparison_payload
from molattn.viewer.report.document import report_document
from molattn.viewer.report.model_parts import ModelParts
from molattn.viewer.report.payload import report_payload
from molattn.viewer.report.run_files import RunFiles, read_run
from tests.molecules import esol
from tests.viewer.run_folders import write_run

SIZE = 60
PLOT = "svg[role=application]"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFiles:
    smiles, true = esol(SIZE)
    predicted = np.array(true) + np.random.default_rng(0).normal(0, 0.5, SIZE)
    return read_run(write_run(tmp_path_factory.mktemp("r") / "run", smiles, {"y": true, "y_pred": predicted.tolist()}))


@pytest.fixture(scope="module")
def document(run: RunFiles) -> str:
    return report_document(report_payload(run, names=[f"name {i}" for i in range(SIZE)], smarts={"chloride": "CCl"}))


def cells(tab, column: int) -> list[str]:
    return tab.locator(f"table.molecules tbody tr td:nth-child({column})").all_inner_texts()


def numbers(tab, column: int) -> list[float]:
    return [float(text.replace("\u2212", "-")) for text in cells(tab, column)]


def test_the_table_is_sorted_by_each_column_both_ways(opened, document, run):
    tab = opened(document)
    errors = run.targets[0].error
    assert np.abs(numbers(tab, 6)) == pytest.approx(np.sort(np.abs(errors))[::-1][:25], abs=1e-3)
    header = tab.locator("table.molecules th").nth(3)
    header.locator("button").click()
    assert header.get_attribute("aria-sort") == "descending"
    assert numbers(tab, 4) == pytest.approx(np.sort(run.targets[0].true)[::-1][:25], abs=1e-3)
    header.locator("button").press("Enter")
    assert header.get_attribute("aria-sort") == "ascending"
    assert numbers(tab, 4) == pytest.approx(np.sort(run.targets[0].true)[:25], abs=1e-3)
    tab.get_by_role("button", name="Next").click()
    assert numbers(tab, 4) == pytest.approx(np.sort(run.targets[0].true)[25:50], abs=1e-3)


def test_molecules_are_found_by_name_split_and_substructure(opened, document, run):
    tab = opened(document)
    marks = tab.locator(f"{PLOT} .mark:not(.out)")
    assert marks.count() == SIZE
    tab.get_by_label("Find").fill("NAME 1")
    expected = [f"name {i}" for i in range(SIZE) if "name 1" in f"name {i}"]
    assert sorted(cells(tab, 2)) == sorted(expected)
    assert marks.count() == len(expected)
    tab.get_by_label("Find").fill("")
    tab.get_by_role("combobox", name="Split").select_option("test")
    assert set(cells(tab, 3)) == {"test"}
    assert tab.locator("output").inner_text() == f"{run.splits.count('test')} of {SIZE} molecules"
    tab.get_by_role("combobox", name="Split").select_option("")
    from rdkit import Chem

    query = Chem.MolFromSmarts("CCl")
    has = [Chem.MolFromSmiles(s).HasSubstructMatch(query) for s in run.smiles]
    tab.get_by_role("combobox", name="Has", exact=True).select_option("chloride")
    assert sorted(cells(tab, 2)) == sorted(f"name {i}" for i in range(SIZE) if has[i])
    tab.get_by_role("combobox", name="Has", exact=True).select_option("")
    tab.get_by_role("combobox", name="Has not").select_option("chloride")
    assert tab.locator("output").inner_text() == f"{has.count(False)} of {SIZE} molecules"
    tab.get_by_label("Find").fill("absent")
    assert cells(tab, 1) == []


def test_a_point_is_reached_by_pointer_and_opens_its_molecule(opened, document, run):
    tab = opened(document)
    tab.get_by_label("Find").fill("name 7")
    mark = tab.locator(f"{PLOT} .mark:not(.out)")
    assert mark.count() == 1
    box = mark.bounding_box()
    at = (box["x"] + box["width"] / 2 + 6, box["y"] + box["height"] / 2)
    tab.mouse.move(*at)
    assert tab.locator(".tip").is_visible()
    assert tab.locator(".tip p").first.inner_text() == "name 7"
    assert tab.locator(".tip svg").count() == 1
    tab.mouse.click(*at)
    panel = tab.get_by_role("dialog")
    assert panel.get_by_role("heading").inner_text() == "name 7"
    assert run.smiles[7] in panel.inner_text()
    assert tab.url.endswith("#molecule=7")
    tab.keyboard.press("Escape")
    panel.wait_for(state="hidden")
    tab.wait_for_url(lambda url: "#" not in url)


def test_points_are_reached_by_the_keyboard(opened, document, run):
    tab = opened(document)
    tab.locator(PLOT).focus()
    true, smallest = run.targets[0].true, int(np.argmin(run.targets[0].true))
    tab.keyboard.press("Home")
    assert tab.locator(".status").inner_text().startswith(f"name {smallest}: ")
    seen = [smallest]
    for _ in range(5):
        tab.keyboard.press("ArrowRight")
        seen.append(int(tab.locator(".status").inner_text().split(":")[0].split()[1]))
    assert [true[i] for i in seen] == sorted(true)[:6]
    tab.keyboard.press("Enter")
    panel = tab.get_by_role("dialog")
    assert panel.get_by_role("heading").inner_text() == f"name {seen[-1]}"


def test_the_panel_goes_through_the_table_in_its_order(opened, document):
    tab = opened(document)
    order = cells(tab, 2)
    tab.locator("table.molecules .thumb").first.click()
    panel = tab.get_by_role("dialog")
    found = [panel.get_by_role("heading").inner_text()]
    for _ in range(3):
        panel.get_by_role("button", name="Next").press("Enter")
        found.append(panel.get_by_role("heading").inner_text())
    assert found == order[:4]
    panel.get_by_role("button", name="Close").click()
    panel.wait_for(state="hidden")


def test_an_address_opens_its_molecule(opened, document):
    tab = opened(document)
    tab.evaluate("location.hash = '#molecule=12'")
    heading = tab.get_by_role("dialog").get_by_role("heading")
    heading.wait_for()
    assert heading.inner_text() == "name 12"


def test_the_table_is_saved_as_it_is_shown(opened, document, run):
    tab = opened(document)
    tab.get_by_role("combobox", name="Split").select_option("val")
    with tab.expect_download() as download:
        tab.get_by_role("button", name="Save CSV").click()
    lines = Path(download.value.path()).read_text().splitlines()
    assert lines[0] == "row,smiles,name,split,true,predicted"
    assert len(lines) - 1 == run.splits.count("val")


def test_saved_classes_have_their_names(opened, tmp_path):
    columns = {"y": ["low", "high", None], "y_pred": ["low", "low", "high"]}
    columns |= {"y_prob_low": [0.75, 0.625, 0.25], "y_prob_high": [0.25, 0.375, 0.75]}
    task = {"kind": "multiclass", "classes": [["low", "high"]]}
    folder = write_run(tmp_path / "run", ["C", "CC", "CCC"], columns, ["test"] * 3, task=task)
    tab = opened(report_document(report_payload(read_run(folder))))
    with tab.expect_download() as download:
        tab.get_by_role("button", name="Save CSV").click()
    lines = Path(download.value.path()).read_text().splitlines()
    assert sorted(lines[1:]) == ["0,C,test,low,low", "1,CC,test,high,low", "2,CCC,test,,high"]


def test_logarithms_are_shown_with_their_unit_and_saved_as_they_are_in_the_table(opened, tmp_path):
    columns = {"IC50 [uM]": [1.0, 100.0, 1e5], "IC50 [uM]_pred": [10.0, 100.0, 1e4]}
    learned = {"units": {"IC50 [uM]": "uM"}, "transforms": {"IC50 [uM]": {"name": "log10"}}}
    folder = write_run(tmp_path / "run", ["CCO", "CCN", "CCCl"], columns, ["test"] * 3, **learned)
    tab = opened(report_document(report_payload(read_run(folder))))
    assert "IC50 (log10(uM)), predicted" in tab.locator(PLOT).inner_html()
    assert "The model learned log10(uM)" in tab.locator("#plot").inner_text()
    assert tab.get_by_role("button", name="true, log10(uM)").count() == 1
    assert sorted(zip(numbers(tab, 4), numbers(tab, 5), strict=True)) == [(0, 1), (2, 2), (5, 4)]
    tab.locator("table.molecules .thumb").first.click()
    assert "0 (log10(uM)): 1 uM" in tab.get_by_role("dialog").inner_text()
    tab.keyboard.press("Escape")
    with tab.expect_download() as download:
        tab.get_by_role("button", name="Save CSV").click()
    lines = Path(download.value.path()).read_text().splitlines()
    assert sorted(lines[1:]) == ["0,CCO,test,1,10", "1,CCN,test,100,100", "2,CCCl,test,100000,10000"]


def test_large_numbers_are_beside_the_title_of_the_axis_and_in_the_table_of_metrics(opened, tmp_path):
    smiles, true = esol(20)
    values = [123_456_789 * abs(y) for y in true]
    folder = write_run(tmp_path / "run", smiles, {"y": values, "y_pred": [1.1 * y for y in values]})
    names = ("rmse", "mae", "r2", "spearman")
    large = {split: {"y": dict.fromkeys(names, 1.234e6) | {"n": 9}} for split in ("train", "val", "test")}
    large["test_intervals"] = {"y": {name: [29214.75, 350707.3] for name in names}}
    large["baseline"] = {"test": {"y": dict.fromkeys(names, 1.234e6)}}
    (folder / "metrics.json").write_text(json.dumps(large))
    tab = opened(report_document(report_payload(read_run(folder))))
    tab.set_viewport_size({"width": 1280, "height": 720})
    box = "(e) => { const { left, right } = e.getBoundingClientRect(); return [left, right]; }"
    _, end = tab.locator(f"{PLOT} text[transform]").evaluate(box)
    starts = [text.evaluate(box)[0] for text in tab.locator(f"{PLOT} text[text-anchor=end]").all()]
    assert len(starts) > 4 and min(starts) > end
    clipped = "[...document.querySelectorAll('.scroll')].filter((e) => e.scrollWidth > e.clientWidth).length"
    assert tab.evaluate(clipped) == 0


def test_another_target_has_its_own_plot_and_sections(opened, tmp_path):
    columns = {"a": [1.0, 2.0, 3.0], "a_pred": [1.0, 2.5, 3.0], "b": [5.0, 6.0, None], "b_pred": [5.0, 6.0, 8.0]}
    folder = write_run(tmp_path / "two", ["CCO", "CCN", "CCCl"], columns, splits=["train", "test", "test"])
    tab = opened(report_document(report_payload(read_run(folder))))
    assert tab.locator(f"{PLOT} .mark").count() == 3
    tab.get_by_role("combobox", name="Target").select_option("b")
    assert tab.locator(f"{PLOT} .mark").count() == 2
    assert "b, predicted" in tab.locator(PLOT).inner_html()
    assert tab.locator("#metrics h3").inner_text() == "b"


def test_two_runs_are_shown_side_by_side(opened, tmp_path):
    smiles, true = esol(20)
    folders = [
        write_run(tmp_path / name, smiles, {"y": true, "y_pred": [y + shift for y in true]})
        for name, shift in (("first", 0.25), ("second", -0.5))
    ]
    tab = opened(report_document(comparison_payload(*align(*map(read_run, folders)))))
    assert tab.locator("h1").inner_text() == "Report of first and second"
    assert set(cells(tab, 7)) == {"0.250"} and set(cells(tab, 8)) == {"\u22120.500"}
    assert set(cells(tab, 9)) == {"0.250"}
    tab.locator("table.molecules .thumb").first.click()
    assert "error 0.25" in tab.get_by_role("dialog").inner_text()


def test_each_pair_of_splits_of_two_runs_has_a_marker_of_its_own(opened, tmp_path):
    smiles, true = esol(20)
    labels = ["train", "cal", "val", "test"]
    splits = [labels[i % 4] for i in range(20)], [labels[i // 4 % 4] for i in range(20)]
    folders = [
        write_run(tmp_path / name, smiles, {"y": true, "y_pred": [y + 0.5 for y in true]}, splits=split)
        for name, split in zip(("first", "second"), splits, strict=True)
    ]
    tab = opened(report_document(comparison_payload(*align(*map(read_run, folders)))))
    legend = tab.locator(".legend").first
    marks = legend.locator("path").evaluate_all(
        "found => found.map(m => [m.getAttribute('d'), getComputedStyle(m).stroke, getComputedStyle(m).fill].join())"
    )
    names = [text.partition(" (")[0] for text in legend.locator("li").all_inner_texts()]
    assert set(names) == {a if a == b else f"{a} / {b}" for a, b in zip(*splits, strict=True)}
    assert len(set(marks)) == len(marks) == 16
    drawn = tab.locator(f"{PLOT} .mark").evaluate_all("found => found.map(m => m.getAttribute('d'))")
    assert set(drawn) == {mark.split(",")[0] for mark in marks} and len(drawn) == 20


@pytest.mark.parametrize("scheme", ["light", "dark", "forced"])
@pytest.mark.parametrize("width", [1280, 800, 390])
def test_there_are_no_accessibility_findings_at_any_size(opened, document, width, scheme):
    axe = pytest.importorskip("axe_playwright_python.base")
    colours = {"forced_colors": "active"} if scheme == "forced" else {"color_scheme": scheme}
    tab = opened(document, **colours)
    tab.set_viewport_size({"width": width, "height": 800})
    tab.evaluate(axe.AXE_SCRIPT)
    violations = tab.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
    assert [(v["id"], v["nodes"][0]["html"][:200]) for v in violations] == []
    tab.locator("table.molecules .thumb").first.click()
    violations = tab.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
    assert [(v["id"], v["nodes"][0]["html"][:200]) for v in violations] == []
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


def test_a_wide_table_scrolls_by_itself(opened, document):
    tab = opened(document)
    tab.set_viewport_size({"width": 390, "height": 800})
    tab.evaluate("document.querySelectorAll('.scroll td').forEach((cell) => cell.append('wide'.repeat(40)))")
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_caption_of_attributions_says_what_they_raise(opened, run):
    labels = molecule_graph(run.smiles[0]).labels
    values = np.linspace(-1, 1, len(labels))
    found = Attribution(run.smiles[0], tuple(labels), values, "additive", "y", 1.0, unit="log10(uM)")
    for attribution, words in (
        (found, "orange raises the prediction (log10(uM)), blue lowers it"),
        (replace(found, part="the first of 2 models"), "the prediction of the first of 2 models (log10(uM))"),
        (replace(found, quantity="log-odds of active", unit="log-odds"), "orange raises the log-odds of active, blue"),
    ):
        tab = opened(report_document(report_payload(run, ModelParts(attributions={"y": {0: attribution}}))))
        tab.evaluate(f"location.hash = 'molecule={run.rows[0]}'")
        assert words in tab.locator("dialog figcaption").inner_text()
