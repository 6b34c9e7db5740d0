"""What the documentation site of molattn needs beyond Sphinx, MyST and its theme.

`pages` writes the reference pages from the code, `docstrings` reads molattn's docstrings, `references` links names and
files, `mathematics` writes equations as MathML, `accessible` mends what screen readers would stumble over,
`outputs` tidies what notebooks print and draw, and `redirects` leads from old addresses to new ones.
"""

from typing import Any

from sphinx.application import Sphinx

from molattn_docs import accessible, docstrings, mathematics, outputs, pages, redirects, references


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the parts with Sphinx."""
    for part in (pages, docstrings, references, mathematics, accessible, outputs, redirects):
        part.setup(app)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
