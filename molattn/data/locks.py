"""Locks among processes, on POSIX systems and on Windows.

What is locked is an open file: for a folder or an output a lock file, which is removed with the lock. Folders cannot be
locked on Windows, nor for all nodes of a network file system.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from molattn.data.paths import sibling_path
from molattn.errors import InputError, MolattnWarning, UsageError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None
    import msvcrt

SECONDS_TO_WARNING = 5.0
"""Seconds to wait for a lock before a warning."""

LOCK_NAME = ".molattn.lock"
"""The lock file of a folder, in it. A process that is killed leaves it there, without its lock."""


def try_lock(handle: int) -> bool:
    """Lock an open file, which can be written to, until it is closed; False if another process has locked it.

    Raises OSError, such as EBADF or ENOLCK of a network file system, if the file system has no locks.
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
    """Close a file that this process has locked and remove it, if possible."""
    if fcntl is None:
        # Windows removes no open file, so that one that another process has locked in between stays.
        os.close(handle)
        with suppress(OSError):
            os.unlink(path)
        return
    # Before it is closed, which releases the lock, so that no other process locks a file that is removed then.
    with suppress(OSError):
        os.unlink(path)
    os.close(handle)


def _lock(lock: Path, subject: Path) -> int:
    """Create and lock the file `lock`; returns its handle. On a file system without locks it is not locked.

    Raises UsageError, about `subject`, if another process has the lock.
    """
    while True:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            with suppress(OSError):
                if not try_lock(handle):
                    raise UsageError(f"another process is using {subject}: wait until it ends, or give another")
            if os.fstat(handle).st_nlink:
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # its owner released and removed it in the meantime


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock a folder in the block; it is created if necessary, and removed if it stays empty.

    Raises UsageError if another process has the lock, InputError if the folder cannot be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise UsageError(f"{folder} is not a folder: give another") from error
    lock = folder / LOCK_NAME
    try:
        handle = _lock(lock, folder)
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
    """Whether there is nothing in a folder but its lock file."""
    return all(path.name == LOCK_NAME for path in folder.iterdir())


@contextmanager
def lock_output(output: Path) -> Iterator[None]:
    """Lock the file `output` in the block, by the lock file `.NAME.lock` next to it.

    Raises UsageError if another process has the lock, InputError if the folder is missing or cannot be written to.
    """
    output = Path(os.path.realpath(output))
    lock = sibling_path(output, ".", ".lock")
    try:
        handle = _lock(lock, output)
    except FileNotFoundError as error:
        raise InputError(f"there is no folder {output.parent}: create it first") from error
    except OSError as error:
        raise InputError(f"{output} cannot be written: {error.strerror}: give another --output") from error
    try:
        yield
    finally:
        remove_locked(lock, handle)


@contextmanager
def wait_for_lock(lock: Path, message: str) -> Iterator[None]:
    """Lock the file `lock` in the block, after other processes; it is not removed.

    Args:
        lock: the lock file, created if it is missing.
        message: a `MolattnWarning` if another process keeps the lock for `SECONDS_TO_WARNING`.

    Raises OSError if it cannot be created, NotImplementedError on a file system without locks.
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
    """Raise the limit on open files, if the system has one and allows it, for `count` locked outputs."""
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
