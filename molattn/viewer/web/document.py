"""The page as one HTML document with its data, style and script, and a strict content security policy."""

import base64
import hashlib
import html
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from molattn.data.files import write_bytes
from molattn.errors import UsageError, short_repr
from molattn.explain import AttentionMap, Attribution
from molattn.viewer.palette import css_variables
from molattn.viewer.web.outcomes import MeasuredValues
from molattn.viewer.web.payload import payload

FRAME_HEIGHT = 980
"""Height of the page in a notebook, in pixels; its content scrolls."""

START = "\nstart(document);\n"
"""The line at the end of the script of a page that shows the data."""

# Only this script and this style are allowed; the page can neither fetch nor send data, nor embed frames.
_POLICY = (
    "default-src 'none'; script-src '{script}'; style-src '{style}'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'"
)
_DOCUMENT = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="molattn">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main class="molattn"></main>
<noscript>This page needs JavaScript, which is disabled.</noscript>
<script type="application/json" class="molattn-data">{data}</script>
<script type="module">{script}</script>
</body>
</html>
"""


def page(
    maps: Sequence[AttentionMap],
    attributions: Sequence[Attribution] = (),
    truth: Sequence[MeasuredValues | None] = (),
    names: Sequence[str] = (),
    classes: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """The interactive page of one or several molecules, as an HTML document that needs no network and no other file.

    It works when opened as a file, and in a sandboxed frame. Names are inserted as text only, and the content security
    policy allows no other script.

    Args:
        maps: the attention maps, in the order of the page; may be empty if there are attributions.
        attributions: shown in a second tab; each is shown with the first map of the same molecule.
        truth: for each map the measured values by target name, or None; empty if there are none.
        names: for each map a name, or ""; empty if there are none.
        classes: the names of the classes of each target of classes, by its name, for the index of several molecules.

    Raises:
        UsageError: neither maps nor attributions, or another number of true values or names than of maps.
        InputError: a map or attribution whose atoms are not those of its SMILES, weights that are negative or not
            finite, values that are not finite, or an attribution of a molecule without a map, unless there are no maps.

    >>> import numpy as np
    >>> from molattn.explain import AttentionMap
    >>> from molattn.viewer import page
    >>> attention = AttentionMap("CCO", ("C", "C", "O"), np.full((2, 4, 3, 3), 1 / 3), {"logS": 1.0}, {"logS": ""})
    >>> html = page([attention], truth=[{"logS": 1.1}])
    >>> html.partition("<title>")[2].partition("</title>")[0]
    'CCO - molattn'
    """
    content = payload(list(maps), list(attributions), list(truth), list(names), classes)
    shown = [m.get("name") or m["smiles"] for m in content["molecules"]]
    title = shown[0] if len(shown) == 1 else f"{shown[0]} and {len(shown) - 1} more"
    return html_document(title, style("page.css"), script("drawing.js", "page.js") + START, content)


def html_document(title: str, style: str, script: str, content: dict[str, Any]) -> str:
    """A self-contained HTML document whose content security policy allows its own script and style, and nothing else.

    Args:
        title: plain text, shortened to 60 characters.
        style: the style sheet, see the function `style`.
        script: an ES module that shows the data, see the function `script`; it ends with `START`.
        content: the data, which must be serializable as JSON; the script finds them in the element `.molattn-data`.
    """
    title = title if len(title) <= 60 else title[:59] + "\u2026"
    return _DOCUMENT.format(
        policy=_POLICY.format(script=_hash(script), style=_hash(style)),
        title=_escape(f"{title} - molattn"),
        style=style,
        data=_json(content),
        script=script,
    )


def write_page(
    path: str | Path,
    maps: Sequence[AttentionMap],
    attributions: Sequence[Attribution] = (),
    truth: Sequence[MeasuredValues | None] = (),
    names: Sequence[str] = (),
    classes: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Write `page(maps, attributions, truth, names, classes)` atomically to a file.

    Args:
        path: the file, .html or .htm; one that exists is replaced.
        maps, attributions, truth, names, classes: as for `page`.

    Raises:
        UsageError: the suffix is not .html or .htm, or the folder does not exist; and as `page`.
        InputError: as `page`.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from molattn.explain import AttentionMap
    >>> from molattn.viewer import page, write_page
    >>> attention = AttentionMap("CCO", ("C", "C", "O"), np.full((2, 4, 3, 3), 1 / 3), {}, {})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_page(f"{folder}/ethanol.html", [attention])
    ...     Path(folder, "ethanol.html").read_text(encoding="utf-8") == page([attention])
    True
    """
    write_document(path, lambda: page(maps, attributions, truth, names, classes))


def write_document(path: str | Path, make: Callable[[], str]) -> None:
    """Write an HTML document atomically to a file.

    Args:
        path: the file, .html or .htm; one that exists is replaced.
        make: computes the document, after the path was checked.

    Raises:
        UsageError: the suffix is not .html or .htm, or the folder does not exist.
    """
    path = Path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"a page is saved as .html, not as {short_repr(path.name)}")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"{short_repr(str(path.parent))} is not a folder: create it first")
    write_bytes(path, make().encode("utf-8"))


def framed(document: str, height: int = FRAME_HEIGHT) -> str:
    """A document in a sandboxed iframe for a notebook, in which it can run its script and download files only.

    Args:
        document: an HTML document, such as one of `page`.
        height: height of the frame in pixels.

    >>> import numpy as np
    >>> from molattn.explain import AttentionMap
    >>> from molattn.viewer.web import framed, page
    >>> attention = AttentionMap("CCO", ("C", "C", "O"), np.full((2, 4, 3, 3), 1 / 3), {}, {})
    >>> html = framed(page([attention]), height=600)
    >>> html.startswith("<iframe") and html.endswith("</iframe>")
    True
    """
    inside = document.replace("&", "&amp;").replace("'", "&#39;")
    return (
        '<iframe class="molattn-page" title="Attention of a molecule" sandbox="allow-scripts allow-downloads" '
        f'width="100%" height="{int(height)}" frameborder="0" style="border:0;width:100%" '
        f"srcdoc='{inside}'></iframe>"
    )


@dataclass(frozen=True)
class Page:
    """The interactive page, which Jupyter displays in a frame; `molattn.Predictor.view` returns one.

    Attributes:
        html: the HTML document, see the function `page`.

    >>> import numpy as np
    >>> from molattn.explain import AttentionMap
    >>> from molattn.viewer.web import Page, page
    >>> attention = AttentionMap("CCO", ("C", "C", "O"), np.full((2, 4, 3, 3), 1 / 3), {}, {})
    >>> shown = Page(page([attention]))
    >>> shown._repr_mimebundle_()["text/html"][:7]
    '<iframe'
    """

    html: str

    def save(self, path: str | Path) -> None:
        """Write the document atomically to a file.

        Args:
            path: .html or .htm; a file that exists is replaced.

        Raises:
            UsageError: another suffix, or the folder does not exist.
        """
        write_document(path, lambda: self.html)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        return {"text/html": framed(self.html), "text/plain": repr(self)}

    def __repr__(self) -> str:
        return f"Page({len(self.html.encode()) // 1000} kB)"


@cache
def source(name: str) -> str:
    """The content of a script or style sheet of this package, such as `page.js`."""
    return files("molattn.viewer.web").joinpath(name).read_text(encoding="utf-8")


def script(*names: str) -> str:
    """The script of a page: `elements.js`, which all pages share, and the scripts `names`, such as `page.js`."""
    return _compact("".join(map(source, ("elements.js", *names))))


def style(*names: str) -> str:
    """The style of a page: the colors of all pages, and the style sheets `names`, such as `page.css`."""
    return _compact(css_variables(":root") + ":root { background: var(--background); }\n" + "".join(map(source, names)))


def _compact(code: str) -> str:
    """Remove indentation, empty lines and comment lines; strings of several lines would be changed, so none has any."""
    return re.sub(r"\n\s*(?://.*)?(?=\n)|(?<=\n)[ ]+", "", code)


def _json(content: dict[str, Any]) -> str:
    """JSON in ASCII, with <, > and & escaped, so that it cannot end its script element."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _escape(text: str) -> str:
    """Text escaped for HTML, in ASCII: a lone surrogate could not be written as UTF-8."""
    return html.escape(text).encode("ascii", "xmlcharrefreplace").decode("ascii")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
