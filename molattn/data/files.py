"""Atomic writes, archive members and temporary files; locks on folders and output files."""

import errno
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
from typing import IO, Any

from molattn.errors import InputError, UsageError, short_repr

try:
    import fcntl
except ImportError:  # Windows, where nothing is locked, and temporary files of killed processes are not removed
    fcntl = None

MAX_NAME_BYTES = 255
"""Maximum bytes of a file name."""

MAX_UNPACKED = 4 * 1024**3
"""Maximum unpacked bytes of a compressed file."""


def file_suffix(path: Path) -> str:
    """The suffix of a file in lower case, without a final `.gz`: `.csv` for `my.csv.gz`."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def read_archive_member(path: Path, member: str) -> bytes:
    """The bytes of one file in an archive (.zip, .tar, .tar.gz), by its exact name.

    Nothing is unpacked to disk, so that names, links and absolute paths in the archive cannot write to it.

    Raises InputError for a damaged archive, a member that is missing or not a regular file, or too many bytes.
    """
    try:
        if path.suffix.lower() == ".zip":
            with zipfile.ZipFile(path) as archive, archive.open(member) as file:
                return _read_limited(file, path)
        with tarfile.open(path) as archive:
            entry = archive.getmember(member)
            file = archive.extractfile(entry) if entry.isreg() else None
            if file is None:
                raise InputError(f"{path}: {short_repr(member)} in it is not a regular file")
            return _read_limited(file, path)
    except KeyError as error:
        raise InputError(f"{path} has no {short_repr(member)} in it") from error
    except FileNotFoundError as error:
        raise InputError(f"there is no file {path}") from error
    except (zipfile.BadZipFile, tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error, lzma.LZMAError) as error:
        reason = str(error).partition("\n")[0].rstrip(":")  # tarfile lists its attempts, one per line
        raise InputError(f"{path} is damaged, it cannot be unpacked ({reason}): download it again") from error
    except (RuntimeError, NotImplementedError) as error:  # a password, or an unsupported compression
        raise InputError(f"{path}: {short_repr(member)} in it cannot be unpacked ({error})") from error


def _read_limited(file: Any, path: Path) -> bytes:
    """All bytes of a binary file, in blocks, so that a decompression bomb is detected before it fills the memory."""
    content = io.BytesIO()
    while block := file.read(1 << 20):
        content.write(block)
        if content.tell() > MAX_UNPACKED:
            raise InputError(f"{path} unpacks to more than {MAX_UNPACKED:,} bytes: it is not read")
    return content.getvalue()


def sibling_path(path: Path, prefix: str, suffix: str) -> Path:
    """A path in the folder of `path`, with its name between `prefix` and `suffix`.

    If that name is too long, the end of the original name is replaced by digits of its checksum.
    """
    name = os.fsencode(path.name)
    max_bytes = MAX_NAME_BYTES - len(os.fsencode(prefix + suffix))
    if len(name) > max_bytes:
        digits = hashlib.sha256(name).hexdigest()[:16]
        name = os.fsencode(name[: max_bytes - 17].decode("utf-8", "ignore")) + b"-" + digits.encode()
    return path.with_name(prefix + os.fsdecode(name) + suffix)


@contextmanager
def atomic_write(path: str | Path, mode: str = "wb", **options: str) -> Iterator[IO]:
    """Open a file that replaces `path` when the block ends without an error; otherwise `path` is unchanged.

    A temporary file in the same folder is written, synced to disk and renamed, so `path` is always the old file or the
    new one, and keeps its permissions. If `path` is a link, the file that it points to is replaced and the link stays.
    Temporary files for `path` of killed processes are removed first, those of running processes are not.
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
            if fcntl is None:
                file.close()  # Windows cannot rename an open file
            # Within the block, because closing releases the lock, and an unlocked file counts as stale.
            os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _open_locked(path: Path, mode: str, options: dict[str, str]) -> tuple[Path, IO]:
    """A new temporary file next to `path`, locked as long as it is open."""
    while True:
        # Not tempfile: its files, and so the result, would be readable only by their owner.
        temporary = sibling_path(path, ".", f".{secrets.token_hex(4)}.tmp")
        file = open(temporary, mode.replace("w", "x"), **options)  # pyright: ignore[reportCallIssue, reportArgumentType]  # noqa: SIM115
        if fcntl is not None:
            with suppress(OSError):  # a file system without locks, where stale files are not removed either
                fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:
            return temporary, file
        file.close()  # another process removed it as stale before it was locked


def _remove_stale(path: Path) -> None:
    """Remove the temporary files for `path` that no process writes to."""
    prefix = sibling_path(path, ".", ".00000000.tmp").name[: -len("00000000.tmp")]
    name = re.compile(rf"{re.escape(prefix)}[0-9a-f]{{8}}\.tmp")
    if fcntl is None or not path.parent.is_dir():
        return
    with os.scandir(path.parent) as entries:
        paths = [entry.path for entry in entries if name.fullmatch(entry.name)]
    for stale in paths:
        with suppress(OSError), open(stale, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(stale)


def clear_folder(folder: Path) -> None:
    """Remove the content of a folder, but not the folder itself."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def remove_temporary_files(folder: Path) -> None:
    """Remove the temporary files of killed processes in `folder` and below."""
    for path in folder.rglob(".*.tmp"):
        if re.fullmatch(r"\..+\.[0-9a-f]{8}\.tmp", path.name):
            path.unlink(missing_ok=True)


def write_bytes(path: str | Path, content: bytes) -> None:
    """Write `content` to `path`, atomically."""
    with atomic_write(path) as file:
        file.write(content)


def write_text(path: str | Path, content: str) -> None:
    """Write `content` to `path` in UTF-8, atomically."""
    write_bytes(path, content.encode("utf-8"))


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
    removed = UsageError(f"{folder} was removed by another process just now: try again")
    try:
        handle = os.open(folder, os.O_RDONLY)
    except FileNotFoundError as error:
        raise removed from error
    try:
        _lock(handle, folder)
        if not (folder.exists() and os.path.samestat(os.fstat(handle), os.stat(folder))):
            raise removed
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


def _lock(handle: int, path: Path) -> None:
    assert fcntl is not None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        # On a file system without locks nothing is locked.
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            raise UsageError(f"another process is using {path}: wait until it ends, or give another") from error
