"""Files that run here: none but this user may have written them, and they are as they were written.

A SHA-256 beside a file finds what a full disk, a crash or a bad medium made of it; owners and rights keep others out.
What is verified is then opened by its name: between the two only this user could put something else in its place, who
may run anything anyway, and molattn itself never writes into a file that is there but renames a new one over it.
"""

import hashlib
import os
import stat
from contextlib import suppress
from pathlib import Path

_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_NOBODY = 65534
"""Who owns the folders of users that a container does not know."""


def check_private_folder(folder: Path) -> None:
    """That nobody else can put a file into a folder, or another folder into its place.

    Raises OSError, which says who can and what to do. Links are followed: what counts is where they lead.
    """
    real = folder.resolve(strict=True)
    about, us = real.stat(), os.geteuid()
    if about.st_uid != us:
        raise OSError(f"{folder} belongs to another user: let MOLATTN_CACHE name a folder of your own")
    if about.st_mode & _OTHERS:
        raise OSError(f"others may write to {folder}: take that right from them (chmod go-w)")
    check_parent_folders(real)


def check_parent_folders(path: Path) -> None:
    """That nobody else can put another file or folder into the place of this one.

    Raises OSError, which says who can and what to do. Links are followed: what counts is where they lead.
    """
    real = path.resolve()
    if not hasattr(os, "geteuid"):  # Windows keeps rights otherwise
        return
    us = os.geteuid()
    for parent in real.parents:
        about = parent.stat()
        # Many systems give each user a group, which may write to all that is the user's.
        group = about.st_mode & stat.S_IWGRP and about.st_gid != os.getegid()
        shared = (group or about.st_mode & stat.S_IWOTH) and not about.st_mode & stat.S_ISVTX
        if shared or about.st_uid not in (0, us, _NOBODY):
            raise OSError(
                f"others may write to {parent}, where {path.name} lies: let MOLATTN_CACHE name a folder of your own"
            )


def read_trusted(path: Path) -> bytes | None:
    """What is in a file; None where there is none, or it is a link, no ordinary file, or others may write to it."""
    try:
        # Without waiting, as for who writes to a pipe.
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    with open(file, "rb") as opened:
        about = os.fstat(file)
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & _OTHERS:
            return None
        try:
            return opened.read()
        except OSError:  # a bad medium
            return None


def is_intact(path: Path) -> bool:
    """Whether a file is what `install_file` has written there."""
    data, said = read_trusted(path), read_trusted(checksum_path(path))
    return data is not None and said is not None and hashlib.sha256(data).hexdigest().encode() == said.strip()


def install_file(new: Path, path: Path) -> None:
    """`new`, a file in the same folder, in the place of `path`, and its SHA-256 beside it: both on the disk.

    Whoever looks in between finds two that do not fit.
    """
    with open(new, "rb") as file:
        os.fchmod(file.fileno(), 0o700)
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        os.fsync(file.fileno())
    write_private(checksum_path(path), digest + "\n")
    os.replace(new, path)
    _sync_folder(path.parent)


def write_private(path: Path, text: str) -> None:
    """A small file that only its owner may read, whole or not at all."""
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    finally:
        new.unlink(missing_ok=True)


def checksum_path(path: Path) -> Path:
    """Where the SHA-256 of a file that `install_file` has written there is written."""
    return path.with_name(f"{path.name}.sha256")


def _sync_folder(folder: Path) -> None:
    """A rename is on the disk when its folder is; some file systems know no such thing."""
    with suppress(OSError):
        file = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)
