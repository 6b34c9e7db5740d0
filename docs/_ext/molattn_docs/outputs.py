"""The outputs of notebooks: warnings without the place in the code, and lighter pictures."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

# "/folder/file.py:12: UserWarning: text", and the line of code below it.
_WARNING = re.compile(r"^/\S+\.py:\d+: (\w+: .*)\n(?:  .*(?:\n|$))?", re.MULTILINE)

_NOT_SHOWN = re.compile(r"<!--.*?-->|<\?.*?\?>|<!DOCTYPE.*?>|<metadata>.*?</metadata>", re.DOTALL)
_ID, _CLASS, _STYLE = (re.compile(rf" {name}=([\"'])([^\"']*)\1") for name in ("id", "class", "style"))
_PATH = re.compile(r"(?<= d=)([\"'])[^\"']*\1")
_DECIMALS = re.compile(r"(\.\d\d)\d+")
_AROUND_LETTERS = re.compile(r" ?([A-Za-z,]) ?")


def setup(app: Sphinx) -> None:
    """Register the events."""
    app.connect("doctree-read", _shorten_warnings)
    app.connect("build-finished", _shrink_pictures)


def shorten_warnings(text: str) -> str:
    """The warnings of Python without the file, which has another path on each machine, and without its code.

    >>> shorten_warnings("/home/me/a.py:3: UserWarning: a row is left out\\n  warn(text)\\n")
    'UserWarning: a row is left out\\n'
    """
    return _WARNING.sub(r"\1\n", text)


def shrink_svg(text: str) -> str:
    """An SVG of matplotlib or RDKit, which looks the same in fewer characters.

    It loses its comments and metadata, ids that nothing refers to, and classes. Paths have two decimals, as a screen
    shows no more. A style that occurs often is written once, as the rule of a class.

    >>> shrink_svg("<svg><!-- a --><g id='b'>\\n <path d='M 1.2345 0 L 2 3' transform='scale(0.0156)'/></g></svg>")
    "<svg><g><path d='M1.23 0L2 3' transform='scale(0.0156)'/></g></svg>"
    >>> shrink_svg("<svg>" + "<path style='fill: red'/>" * 3 + "</svg>")
    "<svg><style>.s0{fill: red}</style><path class='s0'/><path class='s0'/><path class='s0'/></svg>"
    """
    text = " ".join(_NOT_SHOWN.sub("", text).split()).replace("> <", "><")
    referenced = set(re.findall(r"#([\w-]+)", text))
    text = _ID.sub(lambda found: found[0] if found[2] in referenced else "", text)
    text = _PATH.sub(lambda found: _AROUND_LETTERS.sub(r"\1", _DECIMALS.sub(r"\1", found[0])), _CLASS.sub("", text))
    styles = Counter(found[2] for found in _STYLE.finditer(text))
    names = {style: f"s{place}" for place, (style, count) in enumerate(styles.most_common()) if count > 2}
    if not names:
        return text
    text = _STYLE.sub(lambda found: f" class='{names[found[2]]}'" if found[2] in names else found[0], text)
    rules = "".join(f".{name}{{{style}}}" for style, name in names.items())
    return re.sub("<svg[^>]*>", lambda found: f"{found[0]}<style>{rules}</style>", text, count=1)


def _shorten_warnings(app: Sphinx, doctree: nodes.document) -> None:  # noqa: ARG001
    for node in doctree.findall(nodes.literal_block):
        if "stderr" in node["classes"]:
            text = shorten_warnings(node.astext())
            node.rawsource = text
            node.children = [nodes.Text(text)]


def _shrink_pictures(app: Sphinx, exception: Any) -> None:
    if exception is None:
        for path in Path(app.outdir, "_images").glob("*.svg"):
            text = path.read_text(encoding="utf-8")
            if text.startswith("<?xml"):  # not shrunk by an earlier build
                path.write_text(shrink_svg(text), encoding="utf-8")
