"""Pages of the reference that are written from the code, and the contents of the site.

The source of such a page ends with a comment, `<!-- commands -->`, in whose place the text is put when Sphinx reads it.
So the code alone says what is on the page, and nothing generated is committed.
"""

import re
from collections.abc import Callable
from pathlib import Path

from sphinx.application import Sphinx

from molattn_docs import commands, datasets, exit_codes, python_api, settings

CONTENTS = Path(__file__).parents[2] / "_site" / "contents.md"

WRITERS: dict[str, Callable[[str], str]] = {
    "commands": commands.write,
    "dataset": datasets.write_page,
    "dataset group": datasets.write_group,
    "datasets": datasets.write_index,
    "exit codes": exit_codes.write,
    "package": python_api.write_package,
    "packages": python_api.write_index,
    "settings": settings.write,
}
"""The text for a comment, as Markdown, from its argument: empty, or what follows a colon."""

_COMMENT = re.compile(rf"^<!-- ({'|'.join(WRITERS)})(?:: (\S+))? -->$", re.MULTILINE)


def setup(app: Sphinx) -> None:
    """Register the events in which Sphinx reads a page, and looks for the code of a name."""
    app.connect("source-read", _fill)
    app.connect("viewcode-follow-imported", python_api.source_module)


def _fill(app: Sphinx, docname: str, content: list[str]) -> None:
    if docname == app.config.root_doc:
        content[0] += "\n\n" + CONTENTS.read_text(encoding="utf-8")
        app.env.note_dependency(str(CONTENTS))
    elif docname.startswith("docs/reference/"):
        content[0] = _COMMENT.sub(lambda found: WRITERS[found[1]](found[2] or ""), content[0])
        # The code of every part may say something on the page.
        app.env.note_reread()
