"""Files read with a reason where they cannot be, and written whole or not at all."""

import gzip
import hashlib
import io
import lzma
import os
import re
import secrets
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Protocol, runtime_checkable

from molattn.errors import InputError, short_repr

try:
    import fcntl
except ImportError:  # Windows, where what a killed process left beside its output stays
    fcntl = None

LONGEST_NAME = 255
"""Bytes in the name of a file."""

MAX_UNPACKED = 4 * 1024**3
"""The most bytes that a compressed file may turn into."""


@runtime_checkable
class Readable(Protocol):
    """An open file of bytes, compressed or not."""

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes; none at the end."""
        ...


def file_suffix(path: Path) -> str:
    """The ending that says what a file is, in lower case: that before `.gz`, as in `my.csv.gz`."""
    endings = [ending.lower() for ending in path.suffixes]
    if endings and endings[-1] == ".gz":
        endings.pop()
    return endings[-1] if endings else ""


def read_archive_member(path: Path, member: str) -> bytes:
    """The bytes of one file in an archive (.zip, .tar, .tar.gz), by its exact name.

    Nothing is unpacked to disk, so that no name in the archive, link or absolute path can write anywhere.

    Raises InputError for an archive that is damaged, a member that is not there or no ordinary file, or too many bytes.
    """
    try:
        if path.suffix.lower() == ".zip":
            with zipfile.ZipFile(path) as archive, archive.open(member) as file:
                return _bounded(file, path)
        with tarfile.open(path) as archive:
            entry = archive.getmember(member)
            file = archive.extractfile(entry) if entry.isreg() else None
            if file is None:
                raise InputError(f"{path}: {short_repr(member)} in it is not an ordinary file")
            return _bounded(file, path)
    except KeyError as error:
        raise InputError(f"{path} has no {short_repr(member)} in it") from error
    except FileNotFoundError as error:
        raise InputError(f"there is no file {path}") from error
    except (zipfile.BadZipFile, tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error, lzma.LZMAError) as error:
        why = str(error).partition("\n")[0].rstrip(":")  # tarfile lists what it has tried, a line each
        raise InputError(f"{path} is damaged, it cannot be unpacked ({why}): fetch it again") from error
    except (RuntimeError, NotImplementedError) as error:  # a password, or a compression that Python does not have
        raise InputError(f"{path}: {short_repr(member)} in it cannot be unpacked ({error})") from error


def _bounded(file: Readable, path: Path) -> bytes:
    """All bytes of an open file, a piece at a time, so that a bomb is noticed before it fills the memory."""
    whole = io.BytesIO()
    while piece := file.read(1 << 20):
        whole.write(piece)
        if whole.tell() > MAX_UNPACKED:
            raise InputError(f"{path} unpacks to more than {MAX_UNPACKED:,} bytes: it is not read")
    return whole.getvalue()


def sibling_path(path: Path, start: str, end: str) -> Path:
    """A path beside `path`, of its name with `start` before and `end` behind it.

    Where that is longer than a name may be, the middle of the name gives way to a few digits of its checksum.
    """
    name = os.fsencode(path.name)
    room = LONGEST_NAME - len(os.fsencode(start + end))
    if len(name) > room:
        digits = hashlib.sha256(name).hexdigest()[:16]
        name = os.fsencode(name[: room - 17].decode("utf-8", "ignore")) + b"-" + digits.encode()
    return path.with_name(start + os.fsdecode(name) + end)


@contextmanager
def atomic_write(path: str | Path, mode: str = "wb", **options: str) -> Iterator[IO]:
    """A file to write to that takes the place of `path` when the block ends well, and leaves it alone otherwise.

    It is written in the same folder, synced to disk and renamed, so `path` is always the old file or the new one.
    Where `path` is a link, the file it points to is replaced and the link stays. What processes left that were killed
    while they wrote to `path` is removed first; who still writes is left alone.
    """
    path = Path(os.path.realpath(path))
    _remove_stale(path)
    temporary, file = _held(path, mode, options)
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if fcntl is None:
                file.close()  # Windows renames no open file
            # Within the block: the lock ends with it, and an unlocked file is one that nobody wants.
            os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _held(path: Path, mode: str, options: dict[str, str]) -> tuple[Path, IO]:
    """A new temporary file beside `path`, locked for as long as it is open."""
    while True:
        # Not tempfile: its files are readable by their owner only, and so would the result be.
        temporary = sibling_path(path, ".", f".{secrets.token_hex(4)}.tmp")
        file = open(temporary, mode.replace("w", "x"), **options)  # pyright: ignore[reportCallIssue, reportArgumentType]  # noqa: SIM115
        if fcntl is not None:
            with suppress(OSError):  # a file system without locks, where nobody finds it unlocked either
                fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:
            return temporary, file
        file.close()  # somebody took it for stale before it was locked


def _remove_stale(path: Path) -> None:
    """Remove the temporary files for `path` that nobody writes to."""
    begins = sibling_path(path, ".", ".00000000.tmp").name[: -len("00000000.tmp")]
    name = re.compile(rf"{re.escape(begins)}[0-9a-f]{{8}}\.tmp")
    if fcntl is None or not path.parent.is_dir():
        return
    with os.scandir(path.parent) as entries:
        found = [entry.path for entry in entries if name.fullmatch(entry.name)]
    for left in found:
        with suppress(OSError), open(left, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(left)


def clear_folder(folder: Path) -> None:
    """Remove what is in a folder, and leave the folder itself."""
    for left in folder.iterdir():
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left)
        else:
            left.unlink()


def remove_temporary_files(folder: Path) -> None:
    """Remove the temporary files that a process left in `folder` and below when it was killed while it wrote."""
    for path in folder.rglob(".*.tmp"):
        if re.fullmatch(r"\..+\.[0-9a-f]{8}\.tmp", path.name):
            path.unlink(missing_ok=True)


def write_bytes(path: str | Path, content: bytes) -> None:
    """`content` at `path`, atomically."""
    with atomic_write(path) as file:
        file.write(content)


def write_text(path: str | Path, content: str) -> None:
    """`content` at `path` in UTF-8, atomically."""
    write_bytes(path, content.encode("utf-8"))
