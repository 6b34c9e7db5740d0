"""Folders of bundled data sets, of the user's data sets, and of cached tables and molecules."""

import os
from pathlib import Path

from molattn.cache import cache_folder
from molattn.errors import InputError

DATA_VARIABLE = "MOLATTN_DATA"
"""The environment variable of folders that are searched before the bundled ones, separated as in PATH."""


def data_dirs(data_dir: str | Path = "") -> list[Path]:
    """The folders that are searched for a table, in this order.

    They are `data_dir`, the folders in MOLATTN_DATA, the bundled data sets and the user's cache. They need not exist.

    Args:
        data_dir: the folder that is searched first; "" for none.

    Raises:
        InputError: the bundled data sets are missing: see `datasets_dir`.

    >>> from molattn.data import cache_dir, data_dirs, datasets_dir
    >>> folders = data_dirs("my-tables")
    >>> folders[0].name, folders[-2:] == [datasets_dir(), cache_dir()]
    ('my-tables', True)
    """
    first = [Path(data_dir).expanduser()] if data_dir else []
    return [*first, *user_dirs(), datasets_dir(), cache_dir()]


def user_dirs() -> list[Path]:
    """The folders in MOLATTN_DATA."""
    return [Path(folder).expanduser() for folder in os.environ.get(DATA_VARIABLE, "").split(os.pathsep) if folder]


def cache_dir() -> Path:
    """The folder of downloaded and computed tables; it may not exist yet.

    It is `datasets` in the folder of the environment variable MOLATTN_CACHE, if that is set; else in the folder
    `molattn` of the user's cache folder, such as `~/.cache` on Linux.

    >>> from molattn.data import cache_dir
    >>> cache_dir().name
    'datasets'
    """
    return cache_folder() / "datasets"


def molecule_cache_dir() -> Path:
    """The folder of featurized molecules: see `cache_folder`."""
    return cache_folder() / "molecules"


def datasets_dir() -> Path:
    """The folder of cards and of bundled tables: in the package, or next to it in a checkout.

    Raises:
        InputError: neither exists.

    >>> from molattn.data import datasets_dir
    >>> (datasets_dir() / "esol.csv").is_file()
    True
    """
    package = Path(__file__).resolve().parents[2]
    for folder in (package / "_datasets", package.parent / "datasets"):
        # A folder is recognized by its cards: the package of another project may be called `datasets` as well.
        if any(folder.glob("*.toml")):
            return folder
    raise InputError(f"no data sets were found next to {package}: reinstall molattn, or give a file of your own")
