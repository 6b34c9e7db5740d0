"""The first picture of the README exists, and its command makes it."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_command_below_the_picture_makes_it(run, tmp_path):
    readme = (ROOT / "README.md").read_text()
    assert "](docs/attention.png)" in readme and "`python docs/pictures.py`" in readme
    made = runpy.run_path(str(ROOT / "docs" / "pictures.py"))["write"](run, tmp_path)
    assert made == tmp_path / "attention.png"
    for picture in (made, ROOT / "docs" / "attention.png"):
        assert picture.read_bytes().startswith(b"\x89PNG")
