"""Files written whole or not at all."""

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def atomic(path: str | Path, mode: str = "wb", **options: str) -> Iterator[IO]:
    """A file to write to that takes the place of `path` when the block ends well, and leaves it alone otherwise.

    It is written in the same folder, synced to disk and renamed, so `path` is always the old file or the new one.
    Where `path` is a link, the file it points to is replaced and the link stays.
    """
    path = Path(os.path.realpath(path))
    # Not tempfile: its files are readable by their owner only, and so would the result be.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, mode.replace("w", "x"), **options) as file:  # pyright: ignore[reportCallIssue, reportArgumentType]
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files that a process left in `folder` and below when it was killed while it wrote."""
    for path in folder.rglob(".*.tmp"):
        if re.fullmatch(r"\..+\.[0-9a-f]{8}\.tmp", path.name):
            path.unlink(missing_ok=True)


def write_bytes(path: str | Path, content: bytes) -> None:
    """`content` at `path`, atomically."""
    with atomic(path) as file:
        file.write(content)


def write_text(path: str | Path, content: str) -> None:
    """`content` at `path` in UTF-8, atomically."""
    write_bytes(path, content.encode("utf-8"))
