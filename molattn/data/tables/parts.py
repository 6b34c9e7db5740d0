"""Parts of a long output, each whole or not there, so that whoever is killed can go on where it was."""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from molattn.data.files import atomic_write, sibling_path, write_text
from molattn.data.tables.writers import TableFormat, open_compressed
from molattn.errors import InputError, UsageError

MANIFEST = "manifest.json"
JOINED = "joined.json"
"""Lies among the records of parts that are joined, for as long as they are kept."""


def parts_folder(output: Path) -> Path:
    """Where the parts of `output` lie until they are joined."""
    return sibling_path(output, "", ".parts")


def file_sha256(path: str | Path) -> str:
    """Of the bytes of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class PartFiles:
    """Where the parts of one output lie: in `<output>.parts` for each its table, `000123.csv`, and its record,
    `000123.json`, with a checksum. A part is finished when its record is there.

    Args:
        path: the output.
        output: its form.
    """

    def __init__(self, path: Path, output: TableFormat):
        self.path, self.output, self.folder = Path(os.path.realpath(path)), output, parts_folder(path)
        self.finished: dict[int, dict[str, Any]] = {}

    def table(self, number: int) -> Path:
        """The file of a part."""
        return self.folder / f"{number:06d}{self.output.suffix}"

    def finish(self, number: int, record: Mapping[str, Any]) -> None:
        """Note that the table of a part is written."""
        content = {**record, "sha256": file_sha256(self.table(number))}
        write_text(self.table(number).with_suffix(".json"), json.dumps(content) + "\n")
        self.finished[number] = content


class Parts(PartFiles):
    """The finished parts of one output, and what they are made of, which `manifest.json` beside them says.

    Args:
        path: the output.
        output: its form.
        made_of: what all parts depend on, by the words that errors use: the input, the model, the options.

    Raises InputError, with what differs, where parts lie that are made of something else.
    """

    def __init__(self, path: Path, output: TableFormat, made_of: Mapping[str, Any]):
        super().__init__(path, output)
        manifest = self.folder / MANIFEST
        wanted = json.loads(json.dumps(dict(made_of)))
        if manifest.exists():
            found = _json(manifest)
            for name in {**found, **wanted}:
                if found.get(name) != wanted.get(name):
                    raise InputError(
                        f"{self.folder} is of something else: {name} was {found.get(name)}, now it is "
                        f"{wanted.get(name)}; --force without --resume begins anew"
                    )
        else:
            discard_parts(path)
            self.folder.mkdir()
            write_text(manifest, json.dumps(wanted, indent=1) + "\n")
        self.joined = (self.folder / JOINED).exists() and self.path.exists()
        self.read()

    def read(self) -> None:
        """Find the finished parts, which other processes may have made."""
        self.finished = {
            int(record.stem): content
            for record in sorted(self.folder.glob("[0-9]*.json"))
            if (content := self._record(record)) is not None
        }

    def _record(self, path: Path) -> dict[str, Any] | None:
        """What is known of a finished part; None where it is not whole."""
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            whole = self.joined or file_sha256(path.with_suffix(self.output.suffix)) == content["sha256"]
            return content if whole else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def join(self, keep: bool = False) -> None:
        """Put all parts, in order, at the place of the output, and remove them; `keep` leaves their records there."""
        joined = self.folder / "joined"
        tables = [self.table(number) for number in sorted(self.finished)]
        # Written among the parts, so that a kill leaves nothing that the next start does not clear away.
        with atomic_write(joined) as file, open_compressed(self.path, file) as inner:
            self.output.join(tables, inner)
        os.replace(joined, self.path)
        if not keep:
            shutil.rmtree(self.folder)
            return
        write_text(self.folder / JOINED, "{}\n")
        self.joined = True
        for table in tables:
            table.unlink(missing_ok=True)


def discard_parts(output: Path) -> None:
    """Remove the parts of `output`, if there are any.

    Raises UsageError where another folder has their name.
    """
    folder = parts_folder(output)
    if folder.exists():
        ours = folder.is_dir() and ((folder / MANIFEST).is_file() or all(f.name[0] == "." for f in folder.iterdir()))
        if not ours:
            raise UsageError(f"{folder} is in the way, and is none of molattn's: move it, or give another --output")
        shutil.rmtree(folder)


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: --force without --resume begins anew") from error
    return content if isinstance(content, dict) else {}
