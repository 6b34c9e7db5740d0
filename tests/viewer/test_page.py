"""The page as a document: its content, its size, and that names are only text."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from molattn.errors import InputError, UsageError
from molattn.explain import AttentionMap, Attribution
from molattn.viewer import page, write_page
from molattn.viewer.web.document import framed, script, source, style
from molattn.viewer.web.drawing import RADIUS
from molattn.viewer.web.payload import encode, payload
from tests.molecules import esol
from tests.viewer.maps import ASPIRIN, CAFFEINE, MOLECULES, attention_map, with_virtual_node

IMATINIB = "CN1CCN(Cc2ccc(cc2)C(=O)Nc2ccc(C)c(Nc3nccc(n3)-c3cccnc3)c2)CC1"
HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "]]></style><img src=x onerror=alert(1)>",
    "\"onmouseover='alert(1)'",
    "javascript:alert(1)",
    "a\u2028b\u2029c",
    "\x00\x1b\ud800\ufffe",
    "{title}{data}%s\\u003c",
    "\u202egnp.exe",
    "<svg onload=alert(1)>",
    "<iframe srcdoc='<script>alert(1)</script>'>",
    "</title><base href=//evil.example>",
    "</textarea><meta http-equiv=refresh content=0>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;script&#62;",
    "`${alert(1)}`",
    "\\u003cscript\\u003e",
    "*/alert(1)/*",
    "url(javascript:alert(1))",
    '=HYPERLINK("//evil.example","x")',
    "__proto__",
]


class Elements(HTMLParser):
    """The start tags of a document, and the text in them."""

    def __init__(self, document):
        super().__init__()
        self.found, self.open = [], False
        self.feed(document)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append([tag, dict(attrs), ""])
        self.open = True

    def handle_endtag(self, tag):  # noqa: ARG002
        self.open = False

    def handle_data(self, data):
        if self.open:
            self.found[-1][2] += data

    def all(self, tag):
        return [(attributes, text) for name, attributes, text in self.found if name == tag]


def content(document):
    """The data of the page."""
    ((_, text),) = [(a, t) for a, t in Elements(document).all("script") if a["type"] == "application/json"]
    return json.loads(text)


def decoded(attention, n):
    """The decoded weights of the page, (layers, heads, n, n)."""
    shape = (attention["layers"], attention["heads"], n, n)
    codes = np.frombuffer(base64.b64decode(attention["weights"]), np.uint8).reshape(shape)
    scales = np.zeros((*shape[:-1], 4), np.uint8)
    scales[..., 1:] = np.frombuffer(base64.b64decode(attention["scales"]), np.uint8).reshape(*shape[:-1], 3)
    return codes * scales.view("<f4")


@given(arrays(np.float64, (2, 3, 5, 5), elements=st.floats(0, 1e6)))
@settings(deadline=None)
def test_weights_are_within_half_a_step_of_their_encoding(weights):
    codes, scales = encode(weights)
    steps = scales.astype(np.float64)[..., None]
    assert (np.abs(codes * steps - weights) <= steps * 0.51 + 1e-36).all()
    np.testing.assert_allclose(scales, weights.max(-1) / 255, rtol=2e-5, atol=1e-36)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -0.1])
def test_invalid_weights_are_rejected(bad):
    attention = attention_map("CCO")
    attention.weights[0, 0, 0, 0] = bad
    with pytest.raises(InputError, match="must be finite"):
        page([attention])


@pytest.mark.parametrize("smiles", MOLECULES.values(), ids=MOLECULES)
def test_the_page_holds_every_weight_in_the_order_of_the_map(smiles):
    attention = with_virtual_node(attention_map(smiles))
    (molecule,) = content(page([attention]))["molecules"]
    n = attention.num_atoms + 1
    assert molecule["labels"] == attention.labels
    steps = attention.weights.max(-1, keepdims=True) / 255
    assert (np.abs(decoded(molecule["attention"], n) - attention.weights) <= 0.501 * steps).all()
    assert len(molecule["drawing"]["nodes"]) == n
    assert page([attention]) == page([attention])


@pytest.mark.parametrize("smiles", MOLECULES.values(), ids=MOLECULES)
def test_places_are_apart_and_inside_and_bonds_begin_and_end_at_atoms(smiles):
    drawing = payload([with_virtual_node(attention_map(smiles))])["molecules"][0]["drawing"]
    at = np.array(drawing["nodes"])[:, :2]
    apart = np.linalg.norm(at[:, None] - at[None], axis=-1)[~np.eye(len(at), dtype=bool)]
    assert (apart > RADIUS).all()
    low = np.array([drawing["left"], drawing["top"]])
    high = low + np.array([drawing["width"], drawing["height"]])
    assert (at - RADIUS >= low).all() and (at + RADIUS <= high).all()
    ends = np.array([[float(x) for x in p.split()] for p in re.findall(r"[ML]([-\d. ]+)", drawing["lines"])])
    for i, j in drawing["bonds"]:
        for atom in (i, j):
            assert np.linalg.norm(ends - at[atom], axis=-1).min() < 16, "a bond may stop short of a letter, not more"


def test_code_and_style_are_at_most_68_kb_and_a_drug_with_48_heads_170_kb():
    assert len((script("drawing.js", "page.js") + style("page.css")).encode()) <= 68_000
    attention = attention_map(IMATINIB, layers=6, heads=8)
    assert attention.num_atoms == 37
    assert len(page([attention]).encode()) <= 170_000


def test_a_page_of_50_molecules_with_eight_methods_has_less_than_500_kb():
    """The first 50 of ESOL, with 9 atoms on average, and the heads of the default model."""
    maps = [attention_map(text, layers=4, heads=8) for text in esol(1128)[0][:50]]
    methods = [f"integrated-gradients-{k}" for k in range(8)]
    rng = np.random.default_rng(0)
    found = [
        replace(attribution(m.smiles), method=name, values=rng.normal(size=m.num_atoms), faithfulness=name * 5)
        for m in maps
        for name in methods
    ]
    assert len(page(maps, found).encode()) < 500_000


def test_only_the_page_s_own_script_and_style_may_run():
    document = page([attention_map(ASPIRIN)])
    elements = Elements(document)
    ((policy, _),) = [e for e in elements.all("meta") if e[0].get("http-equiv") == "Content-Security-Policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy["content"].split(";"))
    assert rules["default-src"] == "'none'" and rules["base-uri"] == "'none'" and rules["form-action"] == "'none'"

    def digest(text):
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    scripts = [(a, t) for a, t in elements.all("script") if a["type"] == "module"]
    assert [digest(text) for _, text in scripts] == [rules["script-src"]]
    assert [digest(text) for _, text in elements.all("style")] == [rules["style-src"]]
    assert all("src" not in a for a, _ in elements.all("script"))
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", document)


def test_the_code_never_makes_markup_or_code_of_text():
    code = "".join(map(source, ("elements.js", "drawing.js", "page.js", "report.js")))
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|new Function|javascript:", code)
    assert "</script" not in code and "<!--" not in code


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_stay_in_the_data(text):
    m = attention_map(ASPIRIN)
    hostile = replace(
        with_virtual_node(m), prediction={text: 1.0}, units={text: text}, virtual=(text,), faithfulness=text
    )
    other = Attribution(ASPIRIN, m.symbols, np.ones(13), text, text, 1.0, text, 0.5, {text: 2.0}, faithfulness=text)
    a = replace(other, symbols=m.symbols)
    document = page([hostile], [a], [{text: text}])
    elements = Elements(document)
    assert [name for name, _, _ in elements.found] == [name for name, _, _ in Elements(page([m])).found]
    shown = content(document)["molecules"][0]
    unseen = re.search("[\x00-\x1f\u202e\u2028\ud800\ufffe]", text)
    name = shown["predictions"][0]["target"]
    assert name == text or (unseen and "\ufffd" in name)
    assert not re.search("[\x00-\x1f\u2028-\u202e\ud800-\udfff]", name)
    document.encode("utf-8")


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_tokens_and_smiles_stay_in_the_data(text):
    m = AttentionMap(text, (text, "C"), np.full((1, 1, 2, 2), 0.5), {"y": 1.0}, {}, position_type="tokens")
    document = page([m])
    assert [n for n, _, _ in Elements(document).found] == [n for n, _, _ in Elements(page([attention_map("C")])).found]
    frame = Elements(framed(document)).all("iframe")
    assert len(frame) == 1 and frame[0][0]["srcdoc"] == document
    assert frame[0][0]["sandbox"] == "allow-scripts allow-downloads"


def test_predictions_and_true_values_have_their_units():
    m = replace(attention_map(CAFFEINE), prediction={"logS": -1.25, "p": float("nan")}, units={"logS": "mol/L"})
    answers = content(page([m], truth=[{"logS": -0.876, "class": "active"}]))["molecules"][0]["predictions"]
    assert answers == [
        {"target": "logS", "predicted": -1.25, "of": "", "true": -0.876, "unit": "mol/L"},
        {"target": "p", "predicted": None, "of": "", "true": None, "unit": ""},
        {"target": "class", "predicted": None, "of": "", "true": "active", "unit": ""},
    ]
    m = replace(m, prediction={"toxic": 0.25, "s_prob_low": 0.2}, units={})
    classes = {"toxic": ("no", "yes"), "s": ("low", "high", "1")}
    found = payload([m], truth=[{"toxic": "no"}], classes=classes)["molecules"][0]["predictions"]
    assert [(x["target"], x["predicted"], x["of"]) for x in found] == [("toxic", 0.25, "yes"), ("s_prob_low", 0.2, "")]


def test_the_index_has_the_outcome_of_each_target():
    prediction = {"a (cm)": 1.5, "toxic": 0.25, "s_prob_low": 0.2, "s_prob_high": 0.7, "s_prob_1": 0.1}
    m = replace(attention_map(CAFFEINE), prediction=prediction, units={"a (cm)": "cm"})
    classes = {"toxic": ("no", "yes"), "s": ("low", "high", "1")}

    def outcomes(truth):
        return payload([m], truth=[truth], classes=classes)["molecules"][0]["outcomes"]

    number, two, three = outcomes({"a (cm)": 1.0, "toxic": "yes", "s": "low"})
    assert number == {"target": "a (cm)", "unit": "", "predicted": 1.5, "true": 1.0, "error": 0.5}
    values = ("predicted", "true", "probability", "of", "error")
    assert [two[name] for name in values] == ["no", "yes", 0.25, "yes", 0.75]
    assert [three[name] for name in values] == ["high", "low", 0.7, "", 0.8]
    # The name of a class may be a number; a value that is none of the classes has no error.
    unknown = outcomes({"a (cm)": None, "toxic": "maybe", "s": 1.0})
    assert [(x["true"], x["error"]) for x in unknown] == [(None, None), ("maybe", None), ("1", 0.9)]
    assert payload([m])["molecules"][0]["outcomes"][1] == {
        "target": "toxic", "unit": "", "predicted": 0.25, "true": None, "error": None,
    }  # fmt: skip


def attribution(smiles, **more):
    m = attention_map(smiles)
    return Attribution(smiles, m.symbols, np.linspace(-1, 1, m.num_atoms), "additive", "logS", -1.0, **more)


def test_attention_weights_are_sent_without_sign_and_unit_and_occlusion_with_both():
    smiles = "CCO"
    of = {
        "occlusion": {},
        "rollout": {"has_unit": False, "values": np.ones(3)},
        "published": {"has_unit": False, "values": -np.ones(3)},
    }
    found = [replace(attribution(smiles), method=name, unit="cm", **more) for name, more in of.items()]
    data = content(page([], found))
    shown = [data["methods"][a["of"]] for a in data["molecules"][0]["attributions"]]
    assert [(a["method"], a["signed"], a["has_unit"], a["unit"]) for a in shown] == [
        ("occlusion", True, True, "cm"), ("rollout", False, False, "cm"), ("published", True, False, "cm"),
    ]  # fmt: skip


@pytest.mark.parametrize("smiles", ["CCO", "O", "CCCl"])
def test_an_attribution_whose_symbols_spell_its_smiles_is_drawn_as_a_molecule(smiles):
    (alone,) = payload([], [attribution(smiles)])["molecules"]
    (with_map,) = payload([attention_map(smiles)], [attribution(smiles)])["molecules"]
    assert alone["node_type"] == "atom" and alone["drawing"] == with_map["drawing"]
    assert alone["labels"] == with_map["labels"]


def test_attributions_join_the_molecule_that_they_are_of():
    shown = payload([attention_map(CAFFEINE), attention_map(ASPIRIN)], [attribution(ASPIRIN, other_terms={"x": 2.0})])
    assert [len(m["attributions"]) for m in shown["molecules"]] == [0, 1]
    assert shown["molecules"][1]["attributions"][0]["other_terms"] == [["x", 2.0]]
    alone = payload([], [attribution(ASPIRIN), attribution(CAFFEINE), attribution(ASPIRIN)])["molecules"]
    assert [(m["smiles"], m["attention"], len(m["attributions"])) for m in alone] == [
        (ASPIRIN, None, 2),
        (CAFFEINE, None, 1),
    ]


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: page([]), UsageError, "at least one"),
        (lambda: page([attention_map("C")], truth=[{}, {}]), UsageError, "2 true values"),
        (lambda: page([attention_map("CCO")], [attribution("CCN")]), InputError, "'CCN' belongs to none"),
        (lambda: page([], [replace(attribution("CCO"), values=np.ones(2))]), InputError, "one finite number for each"),
        (lambda: page([], [replace(attribution("CCO"), values=np.full(3, np.nan))]), InputError, "one finite number"),
        (lambda: page([replace(attention_map("CCO"), smiles="CCN")]), InputError, "C C O"),
        (lambda: page([replace(attention_map("CCO"), virtual=("v",))]), InputError, "3 x 3, and it has 4 nodes"),
    ],
)
def test_invalid_content_is_rejected_with_a_reason(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_a_page_is_written_whole_to_an_html_file(tmp_path):
    path = tmp_path / "page.html"
    write_page(path, [attention_map(ASPIRIN)])
    assert path.read_text() == page([attention_map(ASPIRIN)])
    with pytest.raises(UsageError, match=r"saved as \.html"):
        write_page(tmp_path / "page.txt", [attention_map(ASPIRIN)])
    with pytest.raises(UsageError, match="is not a folder"):
        write_page(tmp_path / "no" / "page.html", [attention_map(ASPIRIN)])


def test_a_map_shows_itself_in_a_notebook_as_page_picture_and_line():
    for attention in (attention_map(ASPIRIN), replace(attention_map("CCO"), position_type="tokens")):
        bundle = attention._repr_mimebundle_()
        (frame,) = Elements(bundle["text/html"]).all("iframe")
        assert frame[0]["srcdoc"] == attention.html()
        assert base64.b64decode(bundle["image/png"]).startswith(b"\x89PNG")
        assert bundle["text/plain"] == repr(attention)


def test_a_map_too_large_for_a_notebook_shows_its_picture_and_line(monkeypatch):
    monkeypatch.setattr("molattn.explain.attention_map.MAX_EMBEDDED_WEIGHTS", 12 * 9 - 1)
    attention = attention_map("CCO")
    assert attention.weights.size == 12 * 9
    assert set(attention._repr_mimebundle_()) == {"image/png", "text/plain"}
    assert attention.html()
