"""Locks between processes, on POSIX systems and Windows.

A folder or an output is locked by a lock file, which is removed when the lock is released. The folder itself cannot be
locked on Windows, nor for other machines that share a network file system.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from molattn.data.paths import describe_missing_folder, sibling_path
from molattn.errors import DISK_FULL, InputError, MolattnWarning, UsageError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None
    import msvcrt

SECONDS_TO_WARNING = 5.0
"""Seconds of waiting for a lock after which a warning is issued."""

LOCK_NAME = ".molattn.lock"
"""The name of the lock file in a locked folder. A killed process leaves the file, which is then not locked."""


def try_lock(handle: int) -> bool:
    """Lock an open file until it is closed; returns False if another process has locked it.

    Args:
        handle: the file descriptor, open for writing.

    Raises:
        OSError: the file system has no locks; with errno EBADF or ENOLCK on network file systems.
    """
    try:
        if fcntl is None:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # pyright: ignore[reportAttributeAccessIssue, reportPossiblyUnboundVariable]
        else:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        raise
    return True


def remove_locked(path: Path, handle: int) -> None:
    """Remove a file that this process has locked, if possible, and close it, which releases the lock."""
    if fcntl is None:
        # Windows cannot remove an open file; if another process has opened it in the meantime, the file stays.
        os.close(handle)
        with suppress(OSError):
            os.unlink(path)
        return
    # Removed before the lock is released, so that no other process can lock a file that is then removed.
    with suppress(OSError):
        os.unlink(path)
    os.close(handle)


def _lock(lock: Path, locked: Path, option: str) -> int:
    """Create and lock the file `lock`; returns its file descriptor. A file system without locks is no error.

    Raises UsageError, which names `locked`, the folder or output, and its `option`, if another process has the lock.
    """
    while True:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            with suppress(OSError):
                if not try_lock(handle):
                    raise UsageError(f"another process is using {locked}: wait until it ends, or give another {option}")
            if os.fstat(handle).st_nlink:
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # the process that had the lock removed the file in the meantime


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock a folder for the block; it is created if necessary, and removed if it is empty after the block.

    Raises:
        UsageError: another process has the lock or has just removed the folder, or `folder` is not a folder.
        InputError: the folder cannot be created or written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise UsageError(f"{folder} is not a folder: give another") from error
    except OSError as error:
        if error.errno in DISK_FULL:
            raise
        raise InputError(f"{folder} cannot be created ({error.strerror}): give another") from error
    lock = folder / LOCK_NAME
    try:
        handle = _lock(lock, folder, "folder, as with --output-dir")
    except FileNotFoundError as error:
        raise UsageError(f"{folder} was removed by another process just now: try again") from error
    except PermissionError as error:
        raise InputError(f"{folder} cannot be written to ({error.strerror}): give another") from error
    try:
        yield
    finally:
        remove_locked(lock, handle)
        with suppress(OSError):  # it is not empty, or another process has locked it
            folder.rmdir()


def is_empty_folder(folder: Path) -> bool:
    """Whether a folder is empty, or has only its lock file."""
    return all(path.name == LOCK_NAME for path in folder.iterdir())


@contextmanager
def lock_output(output: Path) -> Iterator[None]:
    """Lock the file `output` for the block, by the lock file `.NAME.lock` next to it.

    Raises:
        UsageError: another process has the lock.
        InputError: the folder is missing or cannot be written to.
    """
    output = Path(os.path.realpath(output))
    lock = sibling_path(output, ".", ".lock")
    try:
        handle = _lock(lock, output, "--output")
    except FileNotFoundError as error:
        raise InputError(describe_missing_folder(output.parent)) from error
    except OSError as error:
        raise InputError(f"{output} cannot be written: {error.strerror}: give another --output") from error
    try:
        yield
    finally:
        remove_locked(lock, handle)


@contextmanager
def wait_for_lock(lock: Path, message: str) -> Iterator[None]:
    """Wait until no other process has locked the file `lock`, and lock it for the block.

    Args:
        lock: the lock file, created if it is missing; it is not removed.
        message: issued as a `MolattnWarning` after `SECONDS_TO_WARNING` of waiting.

    Raises:
        OSError: the lock file cannot be created.
        NotImplementedError: the file system has no locks.
    """
    import warnings

    from filelock import FileLock, Timeout  # imported here, because it takes longer than most uses of this module

    file_lock = FileLock(lock)
    try:
        file_lock.acquire(timeout=SECONDS_TO_WARNING)
    except Timeout:
        warnings.warn(MolattnWarning(message), stacklevel=3)
        file_lock.acquire()
    try:
        yield
    finally:
        file_lock.release()


def raise_open_file_limit(count: int) -> None:
    """Raise the limit of open files of this process, if the system allows it, so that `count` outputs can be locked."""
    try:
        import resource
    except ImportError:  # Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    required = count + 256  # for other open files
    if soft != resource.RLIM_INFINITY and soft < required:
        with suppress(OSError, ValueError):
            limit = required if hard == resource.RLIM_INFINITY else min(required, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
