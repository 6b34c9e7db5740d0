"""Locks on folders and output files, which end with their process: after a kill the next process is not blocked."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from molattn.data.files import sibling_path
from molattn.errors import InputError, UsageError

try:
    import fcntl
except ImportError:  # Windows, where nothing is locked
    fcntl = None


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock a folder in the block; it is created if necessary, and removed if it stays empty.

    The folder itself is locked, without a lock file in it.

    Raises UsageError if another process has the lock.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise UsageError(f"{folder} is not a folder: give another") from error
    if fcntl is None:
        yield
        return
    gone = UsageError(f"{folder} was removed by another process just now: try again")
    try:
        handle = os.open(folder, os.O_RDONLY)
    except FileNotFoundError as error:
        raise gone from error
    try:
        _lock(handle, folder)
        if not (folder.exists() and os.path.samestat(os.fstat(handle), os.stat(folder))):
            raise gone
    except BaseException:
        # The folder belongs to another process: it stays, empty or not.
        os.close(handle)
        raise
    try:
        yield
    finally:
        with suppress(OSError):  # it is not empty
            folder.rmdir()
        os.close(handle)


def raise_open_file_limit(count: int) -> None:
    """Raise the limit on open files, if the system allows it, for `count` locked outputs, each an open file."""
    if fcntl is None:
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    required = count + 256  # for other open files
    if soft != resource.RLIM_INFINITY and soft < required:
        with suppress(OSError, ValueError):
            limit = required if hard == resource.RLIM_INFINITY else min(required, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


@contextmanager
def lock_output(output: Path) -> Iterator[None]:
    """Lock the file `output` in the block, with the lock file `.NAME.lock` next to it.

    Raises UsageError if another process has the lock, InputError if the folder is missing or cannot be written to.
    """
    if fcntl is None:
        yield
        return
    output = Path(os.path.realpath(output))
    lock = sibling_path(output, ".", ".lock")
    while True:
        try:
            handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError as error:
            raise InputError(f"there is no folder {output.parent}: create it first") from error
        except OSError as error:
            raise InputError(f"{output} cannot be written: {error.strerror}: give another --output") from error
        try:
            _lock(handle, output)
            if os.fstat(handle).st_nlink:
                break
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # its owner released and removed it in the meantime
    try:
        yield
    finally:
        # Before the lock is released, so that no other process locks a removed file.
        with suppress(OSError):
            os.unlink(lock)
        os.close(handle)


def _lock(handle: int, what: Path) -> None:
    assert fcntl is not None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        # On a file system without locks nothing is locked.
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            raise UsageError(f"another process is at work on {what}: wait for its end, or give another") from error
