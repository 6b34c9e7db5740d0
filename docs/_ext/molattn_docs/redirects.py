"""Old addresses that lead to where their pages, or parts of pages, have gone.

`docs/_site/redirects.toml` is the table. An old page is written again, with nothing but the way to the new one. A page
that is still there gets a script that follows an old heading.
"""

import json
import os
import tomllib
from html import escape
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

TABLE = Path(__file__).parents[2] / "_site" / "redirects.toml"
_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="refresh" content="0; url={address}">
<title>molattn</title>
<p>This page has moved: <a href="{address}">{address}</a></p>
</html>
"""
_FOLLOW = """<script>
  {{ const moved = {moved}[location.hash.slice(1)]; if (moved) location.replace(moved); }}
</script>"""


def setup(app: Sphinx) -> None:
    """Register the table and the events."""
    app.add_config_value("redirects", _read(), "html", dict)
    app.connect("html-page-context", _follow_headings)
    app.connect("build-finished", _write_pages)


def _read() -> dict[str, str]:
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))


def relative(old: str, new: str) -> str:
    """The address of a new place from an old page: ("docs/a", "docs/guide/b#c") gives "guide/b.html#c"."""
    page, sharp, heading = new.partition("#")
    return Path(os.path.relpath(f"{page}.html", Path(old).parent)).as_posix() + sharp + heading


def _follow_headings(app: Sphinx, page: str, _: str, context: dict[str, Any], __: Any) -> None:
    places = {old.partition("#")[2]: new for old, new in app.config.redirects.items() if old.startswith(f"{page}#")}
    if places:
        moved = json.dumps({old: relative(page, new) for old, new in places.items()})
        context["metatags"] = context.get("metatags", "") + _FOLLOW.format(moved=moved)


def _write_pages(app: Sphinx, exception: Exception | None) -> None:
    if exception is not None or app.builder.name != "html":
        return
    for old, new in app.config.redirects.items():
        page, _, heading = new.partition("#")
        target = Path(app.outdir, f"{page}.html")
        if not target.is_file() or (heading and f'id="{heading}"' not in target.read_text(encoding="utf-8")):
            raise ExtensionError(f"redirects.toml: {new} does not exist")
        old_page, _, old_heading = old.partition("#")
        if (old_page in app.env.found_docs) != bool(old_heading):
            raise ExtensionError(f"redirects.toml: {old} is " + ("no page" if old_heading else "a page"))
        if not old_heading:
            path = Path(app.outdir, f"{old}.html")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_PAGE.format(address=escape(relative(old, new))), encoding="utf-8")
