"""Suffixes of file names, and names for files in the same folder."""

import hashlib
import os
from pathlib import Path

MAX_NAME_BYTES = 255
"""Maximum bytes of a file name."""


def file_suffix(path: Path) -> str:
    """The suffix of a file in lower case, without a final `.gz`: `.csv` for `my.csv.gz`."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def describe_missing_folder(folder: Path) -> str:
    """Why there is no such folder, and what to do: it is below a file, or was not created."""
    existing = next((parent for parent in (folder, *folder.parents) if parent.exists()), folder)
    if existing.exists() and not existing.is_dir():
        return f"{existing} is a file, not a folder: give another path"
    return f"there is no folder {folder}: create it first"


def sibling_path(path: Path, prefix: str, suffix: str) -> Path:
    """The path `prefix` + name of `path` + `suffix`, in the folder of `path`.

    If this name is longer than `MAX_NAME_BYTES`, the end of the name of `path` is replaced by digits of its SHA-256.
    """
    name = os.fsencode(path.name)
    max_bytes = MAX_NAME_BYTES - len(os.fsencode(prefix + suffix))
    if len(name) > max_bytes:
        digits = hashlib.sha256(name).hexdigest()[:16]
        name = os.fsencode(name[: max_bytes - 17].decode("utf-8", "ignore")) + b"-" + digits.encode()
    return path.with_name(prefix + os.fsdecode(name) + suffix)
