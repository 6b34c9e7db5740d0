"""One process at a time at what it writes, for as long as it lives: a kill leaves nothing that stops the next."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from molattn.data.files import sibling_path
from molattn.errors import InputError, UsageError

try:
    import fcntl
except ImportError:  # Windows, where nobody is kept away
    fcntl = None


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Nobody else works in a folder within the block; it is made if need be, and removed where it stays empty.

    The folder itself is locked: nothing lies in it for that.

    Raises UsageError where another process works there.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise UsageError(f"{folder} is no folder: give another") from error
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
        # The folder is another's: it stays, empty or not.
        os.close(handle)
        raise
    try:
        yield
    finally:
        with suppress(OSError):  # it is not empty
            folder.rmdir()
        os.close(handle)


def raise_open_file_limit(count: int) -> None:
    """Let this process hold so many outputs at once, each by an open file, where the system allows that."""
    if fcntl is None:
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + 256  # for all else that is open
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


@contextmanager
def lock_output(output: Path) -> Iterator[None]:
    """Nobody else makes the file `output` within the block; `.NAME.lock` lies beside it meanwhile.

    Raises UsageError where another process does, InputError where its folder is missing or cannot be written to.
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
        os.close(handle)  # whoever held it was done with it in between
    try:
        yield
    finally:
        # Before it is free: who finds it unlocked must not find it here.
        with suppress(OSError):
            os.unlink(lock)
        os.close(handle)


def _lock(handle: int, what: Path) -> None:
    assert fcntl is not None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        # A file system without locks keeps nobody away.
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            raise UsageError(f"another process is at work on {what}: wait for its end, or give another") from error
