"""Read a single file of an archive."""

import gzip
import io
import lzma
import tarfile
import zipfile
import zlib
from pathlib import Path
from typing import Any

from molattn.data import files
from molattn.errors import InputError, short_repr


def read_archive_member(path: Path, member: str) -> bytes:
    """The bytes of one file in an archive (.zip, .tar, .tar.gz), by its exact name.

    Nothing is extracted to disk, so that links and absolute paths in the archive cannot overwrite other files.

    Raises InputError for a damaged archive, a member that is missing or not a regular file, or one that unpacks to over
    `molattn.data.files.MAX_UNPACKED` bytes.
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
        if content.tell() > files.MAX_UNPACKED:
            raise InputError(f"{path} unpacks to more than {files.MAX_UNPACKED:,} bytes: it is not read")
    return content.getvalue()
