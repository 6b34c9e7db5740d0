import base64
import subprocess
import sys

import pytest

import molattn.viewer
from molattn.errors import UsageError
from molattn.viewer import Picture

PICTURE = Picture("<svg>é</svg>", b"\x89PNG")


@pytest.mark.parametrize("name", ["a.svg", "a.SVG"])
def test_the_suffix_svg_saves_the_svg_in_utf8(tmp_path, name):
    PICTURE.save(tmp_path / name)
    assert (tmp_path / name).read_text(encoding="utf-8") == PICTURE.svg


def test_the_suffix_png_saves_the_png(tmp_path):
    PICTURE.save(str(tmp_path / "a.png"))
    assert (tmp_path / "a.png").read_bytes() == PICTURE.png


def test_a_format_is_drawn_once_and_only_when_it_is_used(tmp_path):
    drawn = []
    picture = Picture(lambda: drawn.append("svg") or "<svg/>", lambda: drawn.append("png") or b"PNG")
    picture.save(tmp_path / "a.png")
    assert picture.png == b"PNG" and drawn == ["png"]
    assert picture == Picture("<svg/>", b"PNG") and drawn == ["png", "svg"]
    assert picture != Picture("<svg/>", b"")


@pytest.mark.parametrize("name", ["a.jpg", "a", "png"])
def test_another_suffix_is_rejected_and_writes_nothing(tmp_path, name):
    with pytest.raises(UsageError, match=r"\.svg or \.png"):
        PICTURE.save(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UsageError, match="is not a folder"):
        PICTURE.save(tmp_path / "no" / "a.png")


def test_jupyter_gets_both_formats_and_a_short_text():
    bundle = PICTURE._repr_mimebundle_(include=None, exclude=None)
    assert bundle["image/svg+xml"] == PICTURE.svg
    assert base64.b64decode(bundle["image/png"]) == PICTURE.png
    assert bundle["text/plain"] == repr(PICTURE)
    assert "<svg>" not in repr(PICTURE)


def test_ipython_shows_a_picture_by_its_bundle():
    formatters = pytest.importorskip("IPython.core.formatters")
    data, _ = formatters.DisplayFormatter().format(PICTURE)
    assert set(data) >= {"image/svg+xml", "image/png", "text/plain"}


def test_every_name_of_the_package_is_there():
    for name in molattn.viewer.__all__:
        assert getattr(molattn.viewer, name).__name__ == name
        assert name in dir(molattn.viewer)
    with pytest.raises(AttributeError, match="nothing"):
        _ = molattn.viewer.nothing


def test_importing_the_package_loads_neither_matplotlib_nor_rdkit():
    code = "import sys, molattn.viewer; print([m for m in ('matplotlib', 'rdkit', 'torch') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_pictures_neither_import_pyplot_nor_change_settings():
    # Reading rcParams["backend"] would itself import pyplot.
    code = (
        "import sys, matplotlib, numpy as np\n"
        "matplotlib.rcParams['font.size'] = 33\n"
        "settings = lambda: {k: matplotlib.rcParams[k] for k in matplotlib.rcParams if k != 'backend'}\n"
        "before = settings()\n"
        "from molattn.explain import AttentionMap\n"
        "from molattn.viewer import heat_map\n"
        "heat_map(AttentionMap('C', ('C',), np.ones((1, 1, 1, 1)), {}, {}))\n"
        "print('matplotlib.pyplot' in sys.modules, settings() == before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
