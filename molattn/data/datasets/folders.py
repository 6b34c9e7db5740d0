"""Where tables of data sets lie: a folder of the user's choice, the package, the user's cache."""

import os
from pathlib import Path

from molattn.cache import cache_folder
from molattn.data.datasets import cards

DATA_VARIABLE = "MOLATTN_DATA"
"""The environment variable with folders to look into first; several are separated as in PATH."""


def data_dirs(data_dir: str | Path = "") -> list[Path]:
    """The folders that are searched for a table, the first first.

    `data_dir`, then those of MOLATTN_DATA, then the package's own, then the user's cache. A folder need not be there.
    """
    asked = [data_dir, *os.environ.get(DATA_VARIABLE, "").split(os.pathsep)]
    return [*(Path(folder).expanduser() for folder in asked if folder), cards.datasets_dir(), cache_dir()]


def cache_dir() -> Path:
    """The folder for tables that are downloaded or made: see `cache_folder`."""
    return cache_folder() / "datasets"


def molecule_cache_dir() -> Path:
    """The folder for molecules that were read: see `cache_folder`."""
    return cache_folder() / "molecules"
