"""Where tables of data sets lie: a folder of the user's choice, the package, the user's cache."""

import os
import sys
from pathlib import Path

from molattn.data import cards

DATA_VARIABLE = "MOLATTN_DATA"
"""The environment variable with folders to look into first; several are separated as in PATH."""


def data_folders(data_dir: str | Path = "") -> list[Path]:
    """The folders that are searched for a table, the first first.

    `data_dir`, then those of MOLATTN_DATA, then the package's own, then the user's cache. A folder need not be there.
    """
    asked = [data_dir, *os.environ.get(DATA_VARIABLE, "").split(os.pathsep)]
    return [*(Path(folder).expanduser() for folder in asked if folder), cards.datasets_dir(), cache_dir()]


def cache_dir() -> Path:
    """The folder for what is downloaded or made: the user's cache, as the system has it; it need not be there.

    XDG_CACHE_HOME moves it on Linux.
    """
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "molattn" / "datasets"
