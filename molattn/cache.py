"""The folder in which molattn caches downloads and built files."""

import os
import sys
from pathlib import Path

CACHE_VARIABLE = "MOLATTN_CACHE"
"""The environment variable that overrides the folder."""


def cache_folder() -> Path:
    """MOLATTN_CACHE if it is set, else the folder `molattn` in the user's cache folder; it need not exist.

    On Linux, XDG_CACHE_HOME overrides the user's cache folder.
    """
    if own := os.environ.get(CACHE_VARIABLE):
        return Path(own).expanduser()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "molattn"
