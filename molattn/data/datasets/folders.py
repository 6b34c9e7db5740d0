"""The folders of data sets: those that the user names, that of the package, and the user's cache."""

import os
from pathlib import Path

from molattn.cache import cache_folder
from molattn.data.datasets import cards

DATA_VARIABLE = "MOLATTN_DATA"
"""The environment variable of folders that are searched first; several are separated as in PATH."""


def data_dirs(data_dir: str | Path = "") -> list[Path]:
    """The folders that are searched for a table, in this order.

    `data_dir`, then those of MOLATTN_DATA, then that of the package, then the user's cache. They need not exist.
    """
    folders = [data_dir, *os.environ.get(DATA_VARIABLE, "").split(os.pathsep)]
    return [*(Path(folder).expanduser() for folder in folders if folder), cards.datasets_dir(), cache_dir()]


def cache_dir() -> Path:
    """The folder of downloaded and computed tables: see `cache_folder`."""
    return cache_folder() / "datasets"


def molecule_cache_dir() -> Path:
    """The folder of featurized molecules: see `cache_folder`."""
    return cache_folder() / "molecules"
