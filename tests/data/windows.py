"""Locks as they are on Windows."""

import errno
import fcntl

import pytest

from molattn.data import locks


class Msvcrt:
    """The part of the module `msvcrt` that is used, by means of `fcntl`."""

    LK_NBLCK = 2

    @staticmethod
    def locking(handle: int, mode: int, num_bytes: int) -> None:
        assert (mode, num_bytes) == (Msvcrt.LK_NBLCK, 1)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise PermissionError(errno.EACCES, "Permission denied") from error


def use_windows_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lock as if there were no `fcntl`."""
    monkeypatch.setattr(locks, "fcntl", None)
    monkeypatch.setattr(locks, "msvcrt", Msvcrt, raising=False)
