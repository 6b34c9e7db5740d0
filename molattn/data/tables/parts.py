"""Parts of a long output, each written completely or not at all, so that an interrupted command can be resumed."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from molattn.data.files import atomic_write, file_sha256, write_text
from molattn.data.paths import sibling_path
from molattn.data.tables.writers import TableFormat, open_compressed
from molattn.errors import InputError, UsageError

MANIFEST = "manifest.json"
JOINED_MARKER = "joined.json"
"""The file that marks the parts as joined, if their records are not removed."""
REMOVED_MARKER = "removed.json"
"""The name of the manifest while the parts are removed, so that an interrupted removal is not taken for parts."""


def parts_folder(output: Path) -> Path:
    """The folder of the parts of `output` until they are joined.

    It is next to `output`, or to its target if it is a symbolic link, so that the joined file can be renamed to it.
    """
    return sibling_path(Path(os.path.realpath(output)), "", ".parts")


class PartFiles:
    """The files of the parts of one output, in `<output>.parts`.

    A part has a table, such as `000123.csv`, and a record, `000123.json`, with the checksum of the table. A part is
    finished once its record exists.

    Args:
        path: the output file.
        format: its format.
    """

    def __init__(self, path: Path, format: TableFormat):
        self.path, self.format, self.folder = Path(os.path.realpath(path)), format, parts_folder(path)
        self.finished: dict[int, dict[str, Any]] = {}

    def table(self, number: int) -> Path:
        """The path of the table of a part."""
        return self.folder / f"{number:06d}{self.format.suffix}"

    def finish(self, number: int, record: Mapping[str, Any]) -> None:
        """Write the record of a part, after its table is written."""
        content = {**record, "sha256": file_sha256(self.table(number))}
        write_text(self.table(number).with_suffix(".json"), json.dumps(content) + "\n")
        self.finished[number] = content


class Parts(PartFiles):
    """The finished parts of one output, and their dependencies, which are stored in `manifest.json`.

    Args:
        path: the output file.
        format: its format.
        dependencies: what all parts depend on, such as the input, the model and the options, by name, for errors.

    Raises InputError, with what differs, if there are parts with other dependencies.
    """

    def __init__(self, path: Path, format: TableFormat, dependencies: Mapping[str, Any]):
        super().__init__(path, format)
        manifest = self.folder / MANIFEST
        expected = json.loads(json.dumps(dict(dependencies)))
        if manifest.exists():
            found = _read_json(manifest)
            for name in {**found, **expected}:
                if found.get(name) != expected.get(name):
                    raise InputError(
                        f"{self.folder} has the parts of another output: {name} was {found.get(name)}, now it is "
                        f"{expected.get(name)}; --force without --resume starts over"
                    )
        else:
            discard_parts(path)
            self.folder.mkdir()
            write_text(manifest, json.dumps(expected, indent=1) + "\n")
        self.is_joined = (self.folder / JOINED_MARKER).exists() and self.path.exists()
        self.read()

    def read(self) -> None:
        """Find the finished parts, which other processes may have written."""
        self.finished = {
            int(record.stem): content
            for record in sorted(self.folder.glob("[0-9]*.json"))
            if (content := self._record(record)) is not None
        }

    def _record(self, path: Path) -> dict[str, Any] | None:
        """The record of a finished part; None if the part is damaged."""
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            intact = self.is_joined or file_sha256(path.with_suffix(self.format.suffix)) == content["sha256"]
            return content if intact else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def join(self, keep: bool = False) -> None:
        """Join all parts, in order, into the output, and remove them; with `keep`, their records are not removed."""
        joined = self.folder / "joined.tmp"
        tables = [self.table(number) for number in sorted(self.finished)]
        # Written in the folder of the parts, so that the next start removes it if the process is killed.
        with atomic_write(joined) as file, open_compressed(self.path, file) as inner:
            self.format.join(tables, inner)
        os.replace(joined, self.path)
        if not keep:
            _remove_folder(self.folder)
            return
        write_text(self.folder / JOINED_MARKER, "{}\n")
        self.is_joined = True
        for table in tables:
            table.unlink(missing_ok=True)


def discard_parts(output: Path) -> None:
    """Remove the parts of `output`, if any.

    Raises UsageError if another folder has their name.
    """
    folder = parts_folder(output)
    if folder.exists():
        has_parts = any((folder / name).is_file() for name in (MANIFEST, REMOVED_MARKER))
        if not folder.is_dir() or not (has_parts or all(file.name[0] == "." for file in folder.iterdir())):
            raise UsageError(f"{folder} exists and was not written by molattn: move it, or give another --output")
        _remove_folder(folder)


def _remove_folder(folder: Path) -> None:
    """Remove a folder of parts; if the process is killed meanwhile, what is left is known as a removal."""
    marker = folder / REMOVED_MARKER
    if (folder / MANIFEST).exists():
        os.replace(folder / MANIFEST, marker)
    for path in folder.iterdir():
        if path != marker:
            path.unlink()
    marker.unlink(missing_ok=True)
    folder.rmdir()


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: --force without --resume starts over") from error
    return content if isinstance(content, dict) else {}
