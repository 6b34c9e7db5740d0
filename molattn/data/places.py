"""Where tables of data sets lie: a folder of the user's choice, the package, the user's cache."""

import os
import sys
from pathlib import Path

from molattn.data import cards

DATA_VARIABLE = "MOLATTN_DATA"
"""The environment variable with folders to look into first; several are separated as in PATH."""

CACHE_VARIABLE = "MOLATTN_CACHE"
"""The environment variable with the folder for what is downloaded or made."""


def data_folders(data_dir: str | Path = "") -> list[Path]:
    """The folders that are searched for a table, the first first.

    `data_dir`, then those of MOLATTN_DATA, then the package's own, then the user's cache. A folder need not be there.
    """
    asked = [data_dir, *os.environ.get(DATA_VARIABLE, "").split(os.pathsep)]
    return [*(Path(folder).expanduser() for folder in asked if folder), cards.datasets_dir(), cache_dir()]


def cache_dir() -> Path:
    """The folder for tables that are downloaded or made; it need not be there."""
    return cache_home() / "datasets"


def molecules_dir() -> Path:
    """The folder for molecules that were read; it need not be there."""
    return cache_home() / "molecules"


def cache_home() -> Path:
    """The folder of all that can be fetched or made again: MOLATTN_CACHE, or in the user's cache, as the system has it.

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
