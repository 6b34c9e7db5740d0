"""Truncated files, files with one flipped bit, and full disks."""

import os
import resource
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from molattn.errors import MolattnError
from tests.reliability.score import Score


def damages(data: bytes, count: int, seed: int = 0) -> Iterator[bytes]:
    """`data` damaged in `count` ways, in turn truncated and with one bit flipped, at random positions."""
    rng = Random(seed)
    for k in range(count):
        place = rng.randrange(len(data))
        if k % 2:
            yield data[:place]
        else:
            yield data[:place] + bytes([data[place] ^ 1 << rng.randrange(8)]) + data[place + 1 :]


def refuses_damage(score: Score, path: Path, read: Callable[[], Any], count: int) -> None:
    """Check that reading the file, damaged in `count` ways, raises an error of one sentence that names it."""
    whole = path.read_bytes()
    try:
        for data in damages(whole, count):
            path.write_bytes(data)
            score.count("corrupt files")
            try:
                read()
            except MolattnError as error:
                message = str(error)
                score.check("\n" not in message and str(path.parent.parent) in message, f"{path.name}: {message}")
            except Exception as error:
                score.check(False, f"{path.name}: {type(error).__name__}: {error}")
            else:
                score.check(False, f"{path.name}: damage was not noticed")
    finally:
        path.write_bytes(whole)


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Limit the files of this process to `size` bytes: larger writes fail in the kernel."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[bool]:
    """Mount a disk of `size` bytes in memory at `folder`; False if this process may not mount one."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "molattn-tests", str(folder)]
    try:
        mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:  # no such command
        mounted = False
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", str(folder)], check=True, capture_output=True)


@contextmanager
def filled(disk: Path, pages: int) -> Iterator[None]:
    """Fill the disk up to so many free pages of 4,096 bytes."""
    filler = disk / "filler"
    with open(filler, "wb") as file:
        now = os.statvfs(disk)
        os.posix_fallocate(file.fileno(), 0, max(1, now.f_bavail * now.f_frsize - 4096 * pages))
    try:
        yield
    finally:
        filler.unlink()
