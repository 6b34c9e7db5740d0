"""Where molattn keeps what it downloads and makes."""

import os
import sys
from pathlib import Path


def cache_folder() -> Path:
    """The user's cache, as the system has it; it need not be there. XDG_CACHE_HOME moves it on Linux."""
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "molattn"
