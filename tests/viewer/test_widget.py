"""The Python side of the widget; its tests in a browser are in test_page_in_browser.py."""

import importlib
import sys

import numpy as np
import pytest

from molattn.errors import MissingExtra, UsageError
from molattn.explain import Attribution
from molattn.viewer import AttentionWidget, widget
from tests.viewer.maps import ASPIRIN, attention_map, with_virtual_node


def test_it_sends_the_module_and_data_of_the_page_and_stores_the_selection():
    attention = attention_map(ASPIRIN)
    a = Attribution(ASPIRIN, attention.symbols, np.ones(13), "additive", "logS", 1.0)
    shown = AttentionWidget(attention, [a], {"logS": 0.5}, pinned=3)
    assert (shown.pinned, shown.layer, shown.head) == (3, 2, "mean")
    assert "export default" in shown._esm and ".molattn" in shown._css
    (molecule,) = shown.content["molecules"]
    assert molecule["labels"] == attention.labels
    assert molecule["predictions"][0]["true"] == 0.5 and len(molecule["attributions"]) == 1
    assert {"content", "pinned", "layer", "head", "_esm", "_css"} <= set(shown.keys)


def test_the_selection_can_be_set_and_observed():
    shown = AttentionWidget(with_virtual_node(attention_map("CCO")))
    heard = []
    shown.observe(lambda change: heard.append(change["new"]), "pinned")
    shown.pinned = 3  # the virtual node
    shown.pinned = None
    shown.head, shown.layer = 1, 0
    assert heard == [3, None]
    assert (shown.head, shown.layer) == (1, 0)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("pinned", 13, "pinned is from 0 to 12, or None, not 13"),
        ("pinned", -1, "not -1"),
        ("layer", 3, "layer is from 0 to 2, not 3"),
        ("head", 4, "head is from 0 to 3, 'mean' or 'max', not 4"),
        ("head", "median", "'mean' or 'max', not 'median'"),
    ],
)
def test_unknown_values_cannot_be_selected(name, value, words):
    with pytest.raises(UsageError, match=words):
        setattr(AttentionWidget(attention_map(ASPIRIN)), name, value)


def test_without_anywidget_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    with pytest.raises(MissingExtra, match=r"needs anywidget: pip install 'molattn\[widget\]'"):
        importlib.reload(widget)
