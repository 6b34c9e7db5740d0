"""Where molattn keeps what it downloads and makes."""

import os
import sys
from pathlib import Path

CACHE_VARIABLE = "MOLATTN_CACHE"
"""The environment variable with another folder for it."""


def cache_folder() -> Path:
    """MOLATTN_CACHE, or the user's cache, as the system has it; it need not be there.

    XDG_CACHE_HOME moves the latter on Linux.
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
