"""Atomic writing of files, checksums, and removal of temporary files."""

import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from molattn.data import locks
from molattn.data.paths import sibling_path
from molattn.errors import DISK_FULL

MAX_UNPACKED = 4 * 1024**3
"""Maximum unpacked bytes of a compressed file."""


def file_sha256(path: str | Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def atomic_write(path: str | Path, mode: str = "wb", **options: str) -> Iterator[IO]:
    """Open a file that replaces `path` when the block ends without an error; otherwise `path` is unchanged.

    A temporary file in the same folder is written, synced to disk and renamed, so that `path` is always the whole old
    file or the whole new one. The permissions of an old file stay the same. If `path` is a symbolic link, its target is
    replaced. Temporary files for `path` that killed processes have left are removed first.

    Args:
        path: the file; its folder must exist.
        mode: "wb" or "w".
        options: of `open`, such as the encoding.

    Raises:
        OSError: the file cannot be written; if the disk is full, the error has the name of the file.
    """
    path = Path(os.path.realpath(path))
    _remove_stale(path)
    temporary, file = _open_locked(path, mode, options)
    try:
        with file:
            with suppress(OSError):  # there is no old file, or a file system without permissions
                shutil.copymode(path, temporary)
            yield file
            file.flush()
            os.fsync(file.fileno())
            if locks.fcntl is None:
                file.close()  # Windows cannot rename an open file
            # Within the block, because closing releases the lock, and an unlocked file counts as stale.
            os.replace(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno in DISK_FULL and error.filename is None:
            error.filename = str(path)  # of a write, the error has none
        raise


def _open_locked(path: Path, mode: str, options: dict[str, str]) -> tuple[Path, IO]:
    """Create a temporary file next to `path`, which is locked as long as it is open."""
    while True:
        # Not the module tempfile: only their owner can read its files, and so the result.
        temporary = sibling_path(path, ".", f".{secrets.token_hex(4)}.tmp")
        file = open(temporary, mode.replace("w", "x"), **options)  # pyright: ignore[reportCallIssue, reportArgumentType]  # noqa: SIM115
        locked = True
        with suppress(OSError):  # a file system without locks, where stale files are not removed either
            locked = locks.try_lock(file.fileno())
        if locked and os.fstat(file.fileno()).st_nlink:
            return temporary, file
        file.close()  # another process took it for a stale file, and removes it


def _remove_stale(path: Path) -> None:
    """Remove the temporary files for `path` that no process is writing."""
    prefix = sibling_path(path, ".", ".00000000.tmp").name[: -len("00000000.tmp")]
    name = re.compile(rf"{re.escape(prefix)}[0-9a-f]{{8}}\.tmp")
    if not path.parent.is_dir():
        return
    with os.scandir(path.parent) as entries:
        paths = [entry.path for entry in entries if name.fullmatch(entry.name)]
    for stale in paths:
        _remove_unlocked(Path(stale))


def _remove_unlocked(path: Path) -> None:
    """Remove a temporary file if no process is writing it and the file system supports locks."""
    with suppress(OSError):
        # NFS locks only files that are open for writing.
        handle = os.open(path, os.O_RDWR if os.access(path, os.W_OK) else os.O_RDONLY)
        locked = False
        with suppress(OSError):
            locked = locks.try_lock(handle)
        if locked:
            locks.remove_locked(path, handle)
        else:
            os.close(handle)


def clear_folder(folder: Path) -> None:
    """Remove everything in a folder but its lock file."""
    for path in folder.iterdir():
        if path.name == locks.LOCK_NAME:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def remove_temporary_files(folder: Path) -> None:
    """Remove the temporary files that killed processes have left in `folder` and its subfolders."""
    for path in folder.rglob(".*.tmp"):
        if re.fullmatch(r"\..+\.[0-9a-f]{8}\.tmp", path.name):
            _remove_unlocked(path)


def write_bytes(path: str | Path, content: bytes) -> None:
    """Write `content` to `path`, atomically."""
    with atomic_write(path) as file:
        file.write(content)


def write_text(path: str | Path, content: str) -> None:
    """Write `content` to `path` in UTF-8, atomically."""
    write_bytes(path, content.encode("utf-8"))
