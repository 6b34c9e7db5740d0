"""The moving picture of the README exists, and its command makes it."""

import runpy
from pathlib import Path

from PIL import Image

from tests.viewer.conftest import require_chromium

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def test_the_command_below_the_picture_makes_it(run, tmp_path, monkeypatch):
    require_chromium()
    monkeypatch.syspath_prepend(DOCS)
    readme = (ROOT / "README.md").read_text()
    assert "](docs/page.gif)" in readme and "`python docs/pictures.py`" in readme
    made = runpy.run_path(str(DOCS / "pictures.py"))["write"](run, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["page.gif"]
    for path in (made, DOCS / "page.gif"):
        with Image.open(path) as picture:
            assert picture.size == (960, 620) and picture.n_frames > 30
            assert picture.info["loop"] == 1, "it comes to rest"
    assert (DOCS / "page.gif").stat().st_size < 600_000
