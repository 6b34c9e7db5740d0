"""The palette: legible in light and dark mode, and one meaning in every picture."""

import re
from pathlib import Path

import numpy as np
import pytest

import molattn.viewer
from molattn.viewer.palette import ELEMENTS, PAGE_COLORS, SYSTEM_COLORS, css_variables, to_color

SHEETS = sorted(Path(molattn.viewer.__file__).parent.glob("web/*.css"))


def luminance(text):
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_color(text)]
    return np.dot([0.2126, 0.7152, 0.0722], linear)


def contrast(first, second):
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("screen", [0, 1])
def test_text_is_legible_on_the_background_and_on_data(screen):
    colors = {name: pair[screen] for name, pair in PAGE_COLORS.items()}
    for name in ("text", "muted", "accent", "focus", "partner", "warning"):
        assert contrast(colors[name], colors["background"]) >= 4.5, name
    for symbol in ELEMENTS:
        assert contrast(colors[f"element-{symbol}"], colors["background"]) >= 4.5, symbol
    for name in ("attention", "above", "below", "highlight", "hover"):
        assert contrast(colors["text"], colors[name]) >= 4.5, name
    assert contrast(colors["on-accent"], colors["accent"]) >= 4.5
    # Lines and marks need 3 to 1.
    for name in [*(f"head-{k}" for k in range(8)), "cell", "val", "test"]:
        assert contrast(colors[name], colors["background"]) >= 3, name


def test_every_colour_of_the_pages_is_of_the_palette():
    for sheet in SHEETS:
        text = sheet.read_text()
        assert not re.search(r"#[0-9a-f]{3,6}\b", text), sheet.name
        assert set(re.findall(r"var\(--([\w-]+)\)", text)) <= set(PAGE_COLORS), sheet.name
    assert set(SYSTEM_COLORS) <= set(PAGE_COLORS)
    report = next(sheet.read_text() for sheet in SHEETS if sheet.name == "report.css")
    rules = set(re.findall(r"\.structure \.(\w+) { fill: var\(--element-(\w+)\)", report))
    assert rules == {(symbol, symbol) for symbol in ELEMENTS}
    assert not {"attention", "above", "below", "cell"} & set(SYSTEM_COLORS), "data keep their colors"


def test_all_colours_are_variables():
    text = css_variables(":root")
    for name, (light, dark) in PAGE_COLORS.items():
        assert f"--{name}: light-dark({light}, {dark});" in text
