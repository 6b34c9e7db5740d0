"""The cache folder, and checks of the files in it that are executed: owned by this user, and unchanged.

A SHA-256 file next to each file detects damage by a full disk, a crash or a faulty disk; owners and permissions exclude
other users. A verified file is then opened by its name. Only this user could replace it in between, and this user can
run anything anyway; molattn itself never writes to an existing file, but renames a new one over it.

`cache_folder` and `check_parent_folders` work on every system; the other functions need POSIX, as compiled kernels do.
"""

import hashlib
import os
import stat
import sys
from contextlib import suppress
from pathlib import Path

CACHE_VARIABLE = "MOLATTN_CACHE"
"""The environment variable that overrides the folder."""


def cache_folder() -> Path:
    """MOLATTN_CACHE if it is set, else the folder `molattn` in the user's cache folder; it may not exist yet.

    On Linux, XDG_CACHE_HOME overrides the user's cache folder.
    """
    if folder := os.environ.get(CACHE_VARIABLE):
        return Path(folder).expanduser()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "molattn"


_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
"""The permission bits of group and other users."""
_NOBODY = 65534
"""The id of the user "nobody", to whom the folders of users belong that are unknown in a container."""


def check_private_folder(folder: Path) -> None:
    """Check that no other user can add a file to a folder or replace the folder.

    Symbolic links are followed.

    Raises:
        OSError: another user can; the message says why and what to do.
    """
    real = folder.resolve(strict=True)
    status = real.stat()
    if status.st_uid != os.geteuid():
        raise OSError(f"{folder} belongs to another user: set MOLATTN_CACHE to a folder of your own")
    if status.st_mode & _WRITABLE_BY_OTHERS:
        raise OSError(f"others may write to {folder}: remove that permission (chmod go-w)")
    check_parent_folders(real)


def check_parent_folders(path: Path) -> None:
    """Check that no other user can replace this file or folder through one of its parent folders.

    Symbolic links are followed.

    Raises:
        OSError: another user can; the message says why and what to do.
    """
    real = path.resolve()
    if not hasattr(os, "geteuid"):  # Windows has other permissions
        return
    for parent in real.parents:
        status = parent.stat()
        # The user's own group may have write permission: on many systems it has no other members.
        by_group = status.st_mode & stat.S_IWGRP and status.st_gid != os.getegid()
        writable = (by_group or status.st_mode & stat.S_IWOTH) and not status.st_mode & stat.S_ISVTX
        if writable or status.st_uid not in (0, os.geteuid(), _NOBODY):
            raise OSError(
                f"others may write to {parent}, where {path.name} is: set MOLATTN_CACHE to a folder of your own"
            )


def read_trusted(path: Path) -> bytes | None:
    """The content of a file; None if it is missing, unreadable, not a regular file, a symbolic link, another user's, or
    writable by others."""
    try:
        # O_NONBLOCK, so that opening a pipe does not wait for a writer.
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    with open(file, "rb") as opened:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & _WRITABLE_BY_OTHERS:
            return None
        try:
            return opened.read()
        except OSError:  # a faulty disk
            return None


def is_intact(path: Path) -> bool:
    """Whether a file is private and matches its SHA-256 from `install_file`."""
    data, digest = read_trusted(path), read_trusted(checksum_path(path))
    return data is not None and digest is not None and hashlib.sha256(data).hexdigest().encode() == digest.strip()


def install_file(new: Path, path: Path) -> None:
    """Rename `new`, a file in the same folder, to `path` and write its SHA-256 next to it, both synced to disk.

    Between the two steps, a reader finds a file and a SHA-256 that do not match.
    """
    with open(new, "rb") as file:
        os.fchmod(file.fileno(), 0o700)
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        os.fsync(file.fileno())
    write_private(checksum_path(path), digest + "\n")
    os.replace(new, path)
    _sync_folder(path.parent)


def write_private(path: Path, text: str) -> None:
    """Write a small file atomically, readable only by its owner."""
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        opened = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(opened, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    finally:
        new.unlink(missing_ok=True)


def checksum_path(path: Path) -> Path:
    """The path of the SHA-256 of a file that `install_file` writes."""
    return path.with_name(f"{path.name}.sha256")


def _sync_folder(folder: Path) -> None:
    """Sync a folder, so that a rename in it is on disk; some file systems do not support this."""
    with suppress(OSError):
        file = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)
