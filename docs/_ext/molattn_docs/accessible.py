"""What Sphinx writes in a page and a screen reader would stumble over, written otherwise.

- A table's corner cell without text is no header.
- The lines of a long signature are no list of definitions: they have no terms.
"""

import re
from typing import Any

from sphinx.application import Sphinx

_CORNER = re.compile(r'<th(?: class="head")?>(?:<p></p>)?</th>')  # pandas writes it without a class
_SIGNATURE = re.compile(r"<dl>\n((?:<dd>.*</dd>\n)+)</dl>")


def setup(app: Sphinx) -> None:
    """Register the event in which a page is complete."""
    app.connect("html-page-context", _mend)


def _mend(_: Sphinx, __: str, ___: str, context: dict[str, Any], ____: Any) -> None:
    if body := context.get("body"):
        body = _CORNER.sub("<td></td>", body)
        context["body"] = _SIGNATURE.sub(lambda found: f'<div class="parameters">\n{_lines(found[1])}</div>', body)


def _lines(parameters: str) -> str:
    return parameters.replace("<dd>", "<div>").replace("</dd>\n", "</div>\n")
