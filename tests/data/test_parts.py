"""Parts of an output: complete or absent, with the same dependencies, and joined in order."""

import gzip
import hashlib
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from molattn.data.files import file_sha256
from molattn.data.tables.parts import MANIFEST, Parts, discard_parts, parts_folder
from molattn.errors import InputError, UsageError

MADE_OF = {"input": "a.csv", "options": (1, "x")}


class Lines:
    """An output whose parts are joined by a line of dashes."""

    suffix = ".txt"
    max_rows = None

    def writer(self, file: Any) -> Any:
        raise NotImplementedError

    def join(self, parts: Sequence[Path], file: Any) -> None:
        file.write(b"---\n".join(part.read_bytes() for part in parts))


def opened(output: Path, **made_of: object) -> Parts:
    return Parts(output, Lines(), {**MADE_OF, **made_of})


def finish(parts: Parts, number: int, text: str) -> None:
    parts.table(number).write_text(text)
    parts.finish(number, {"rows": len(text)})


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "out.txt"


def test_files_and_records_of_parts(output: Path) -> None:
    parts = opened(output)
    assert parts.folder == parts_folder(output) == output.with_name("out.txt.parts")
    assert parts.table(12) == parts.folder / "000012.txt"
    assert (parts.folder / MANIFEST).read_text() == '{\n "input": "a.csv",\n "options": [\n  1,\n  "x"\n ]\n}\n'
    assert parts.finished == {}
    finish(parts, 12, "twelve\n")
    sha256 = hashlib.sha256(b"twelve\n").hexdigest()
    assert file_sha256(parts.table(12)) == sha256
    assert parts.finished == {12: {"rows": 7, "sha256": sha256}}
    assert json.loads((parts.folder / "000012.json").read_text()) == parts.finished[12]


def test_finished_parts_are_found_again_and_joined_in_order(output: Path) -> None:
    parts = opened(output)
    for number in (10, 2, 0):
        finish(parts, number, f"{number}\n")
    again = opened(output)
    assert again.finished == parts.finished
    again.table(1).write_text("written, not finished\n")
    again.join()
    assert output.read_text() == "0\n---\n2\n---\n10\n"
    assert list(output.parent.iterdir()) == [output]


def test_an_output_in_another_folder_that_a_link_points_to(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    link = tmp_path / "out.txt"
    link.symlink_to(tmp_path / "there" / "real.txt")
    parts = opened(link)
    finish(parts, 0, "x\n")
    parts.join()
    assert link.is_symlink() and (tmp_path / "there" / "real.txt").read_text() == "x\n"


def test_an_output_that_is_compressed(tmp_path: Path) -> None:
    parts = opened(tmp_path / "out.txt.gz")
    finish(parts, 0, "x\n")
    parts.join()
    assert gzip.decompress((tmp_path / "out.txt.gz").read_bytes()) == b"x\n"


@pytest.mark.parametrize("damaged", ["", "{", "[]", "3", "{}", '{"sha256": "0"}', '{"sha256": null}'])
def test_a_part_with_a_damaged_record_is_not_finished(output: Path, damaged: str) -> None:
    parts = opened(output)
    for number in (0, 1):
        finish(parts, number, "x\n")
    (parts.folder / "000000.json").write_text(damaged)
    assert set(opened(output).finished) == {1}


def test_a_changed_or_missing_part_is_not_finished(output: Path) -> None:
    parts = opened(output)
    for number in (0, 1, 2):
        finish(parts, number, "x\n")
    parts.table(0).write_text("y\n")
    parts.table(1).unlink()
    assert set(opened(output).finished) == {2}


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({"input": "b.csv"}, "input was a.csv, now it is b.csv"),
        ({"options": [1, "y"]}, r"options was \[1, 'x'\], now it is \[1, 'y'\]"),
        ({"model": "m"}, "model was None, now it is m"),
    ],
)
def test_parts_with_other_dependencies_raise(output: Path, other: dict[str, object], reason: str) -> None:
    finish(opened(output), 0, "x\n")
    with pytest.raises(InputError, match=f"has the parts of another output: {reason}; --force"):
        opened(output, **other)
    assert set(opened(output).finished) == {0}


def test_a_removed_dependency_raises(output: Path) -> None:
    opened(output, model="m")
    with pytest.raises(InputError, match="model was m, now it is None"):
        opened(output)


@pytest.mark.parametrize("manifest", [b"{", b"\xff"])
def test_a_manifest_that_cannot_be_read_is_one_sentence(output: Path, manifest: bytes) -> None:
    folder = opened(output).folder
    (folder / MANIFEST).write_bytes(manifest)
    with pytest.raises(InputError, match=rf"{MANIFEST} cannot be read: --force without --resume starts over$"):
        opened(output)


def test_a_manifest_of_another_type_raises(output: Path) -> None:
    folder = opened(output).folder
    (folder / MANIFEST).write_text("[]")
    with pytest.raises(InputError, match="input was None"):
        opened(output)


def test_parts_are_discarded_and_nothing_else_is(output: Path) -> None:
    discard_parts(output)  # there are none
    finish(opened(output), 0, "x\n")
    discard_parts(output)
    assert not parts_folder(output).exists()
    parts_folder(output).mkdir()
    (parts_folder(output) / ".manifest.json.01234567.tmp").touch()  # a kill came before the manifest
    opened(output)
    discard_parts(output)
    parts_folder(output).mkdir()
    (parts_folder(output) / "mine.txt").touch()
    for attempt in (discard_parts, opened):
        with pytest.raises(UsageError, match="exists and was not written by molattn"):
            attempt(output)
    assert (parts_folder(output) / "mine.txt").exists()
    (parts_folder(output) / "mine.txt").unlink()
    parts_folder(output).rmdir()
    parts_folder(output).write_text("a file")
    with pytest.raises(UsageError, match="was not written by molattn"):
        discard_parts(output)


@pytest.mark.parametrize("steps", range(6))
def test_an_interrupted_removal_is_finished_by_the_next_start(
    output: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    parts = opened(output)
    for number in (0, 1):
        finish(parts, number, f"{number}\n")
    removed = 0

    def unlink(path: Path, **_: bool) -> None:
        nonlocal removed
        if removed == steps:
            raise KeyboardInterrupt
        removed += 1
        os.unlink(path)

    with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
        patch.setattr(Path, "unlink", unlink)
        parts.join()
    assert output.read_text() == "0\n---\n1\n"
    assert parts.folder.exists() == (steps < 5)
    again = opened(output)
    assert not again.finished  # what a removal left is never joined
    discard_parts(output)
    assert not parts.folder.exists()


def test_the_parts_of_a_link_are_next_to_the_file_that_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "other_disk").mkdir()
    output = tmp_path / "out.txt"
    output.symlink_to(tmp_path / "other_disk" / "far.txt")
    parts = opened(output)
    assert parts.folder == parts_folder(output) == tmp_path / "other_disk" / "far.txt.parts"
    finish(parts, 0, "a\n")
    parts.join()
    assert output.is_symlink() and output.read_text() == "a\n"
