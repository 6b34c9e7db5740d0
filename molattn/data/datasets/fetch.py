"""The table of a data set: found where it lies, or else downloaded or made, once, however many ask for it."""

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from molattn.data.datasets.cards import DatasetCard, Download, Pin, load_card, pin_path, read_pin, verify
from molattn.data.datasets.download import Progress, UnreachableError, download
from molattn.data.datasets.folders import DATA_VARIABLE, cache_dir, data_dirs
from molattn.data.files import read_archive_member, write_text
from molattn.data.tables.table import Table, column_index, read_table, read_table_bytes, write_table
from molattn.errors import InputError, UsageError

DOWNLOADS = "downloads"
"""The folder, within a data folder, of public files as they came."""


def find_dataset(card: DatasetCard, data_dir: str | Path = "") -> DatasetCard | None:
    """The card with the folder where its table lies, verified; None where it lies nowhere.

    Raises InputError for a table that lies there and is not the one of the card.
    """
    for folder in data_dirs(data_dir):
        here = replace(card, folder=folder)
        if here.path.is_file():
            verify(here)
            return here
    return None


def fetch_dataset(name: str, data_dir: str | Path = "", progress: Progress | None = None) -> tuple[DatasetCard, str]:
    """The card of the data set `name` with the folder where its table lies, and a sentence on what was done for it.

    The table is looked for in `data_dir`, in the folders of MOLATTN_DATA, in the package and in the user's cache; then
    the public file of it, in the folder `downloads` of each. If there is neither, it is downloaded, or made, into
    `data_dir` or else the cache. Processes that ask at once wait for the first.

    Args:
        name: of the data set.
        data_dir: a folder to look into first, and to write to.
        progress: told of a download, as `molattn.data.datasets.download.download` says.

    Raises:
        UsageError: an unknown name, or a folder that cannot be written to.
        InputError: a table that is not the one of the card, or a download that fails; it says which file to put where.
    """
    card = load_card(name)
    found = find_dataset(card, data_dir)
    if found is not None:
        return found, ""
    if card.download is None and not card.made:
        raise InputError(f"{card.path} is missing: reinstall molattn")
    from filelock import FileLock  # here and not above, for the sake of those who obtain nothing

    folder = Path(data_dir).expanduser() if data_dir else cache_dir()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / f".{name}.lock")
        with lock:
            found = find_dataset(card, data_dir)  # another process may have been faster
            if found is not None:
                return found, ""
            return _build(replace(card, folder=folder), data_dir, progress)
    except OSError as error:
        why = error.strerror or error
        raise UsageError(f"{folder} cannot be written to ({why}): give another --data-dir") from error


def _build(card: DatasetCard, data_dir: str | Path, progress: Progress | None) -> tuple[DatasetCard, str]:
    """Write the table and its pin into `card.folder`."""
    if card.made:
        from molattn.chem import contributions_table, rdkit_version  # here, because it brings RDKit

        columns, rows = contributions_table(card.made)
        source, source_sha256 = f"RDKit {rdkit_version()}", ""
        said = f"{card.name} was made with {source}, in {card.path}"
    else:
        assert card.download is not None
        raw, source, source_sha256, said = _public_file(card, card.download, data_dir, progress)
        columns, rows = _own_columns(card, card.download, _read(raw, card.download))
    # The pin first: who finds the table without it, as another process may, would take it for a damaged one.
    draft = card.path.with_name(f".{card.path.stem}.draft.csv")
    write_table(draft, columns, rows)
    pin = Pin(source, source_sha256, hashlib.sha256(draft.read_bytes()).hexdigest(), len(rows))
    write_text(pin_path(card), json.dumps(asdict(pin), indent=1) + "\n")
    os.replace(draft, card.path)
    return card, said


def _public_file(
    card: DatasetCard, home: Download, data_dir: str | Path, progress: Progress | None
) -> tuple[Path, str, str, str]:
    """The public file, where it came from, its sha256, and what to say of it."""
    pin = read_pin(card)
    expected = home.sha256 or (pin.source_sha256 if pin is not None else "")
    for folder in dict.fromkeys([card.folder, *data_dirs(data_dir)]):
        raw = folder / DOWNLOADS / home.file
        if raw.is_file():
            found = hashlib.sha256(raw.read_bytes()).hexdigest()
            if expected and found != expected:
                raise InputError(f"{raw}: sha256 is {found}, {expected} is expected: remove it, it is fetched again")
            return raw, str(raw), found, f"{card.name} was read from {raw}, sha256 {found}, into {card.path}"
    raw = card.folder / DOWNLOADS / home.file
    failed: UnreachableError | None = None
    for url in home.urls:
        try:
            found = download(url, raw, expected, progress)
        except UnreachableError as error:
            failed = error
            continue
        told = "as known" if home.sha256 else "nobody had pinned it before; now it is"
        return raw, url, found, f"{card.name} was downloaded from {url}, sha256 {found} ({told})"
    raise UnreachableError(
        f"{failed}: fetch {home.urls[0]} elsewhere and put it into {raw.parent}, "
        f"or name a folder that has {DOWNLOADS}/{home.file} with --data-dir or {DATA_VARIABLE}"
    ) from failed


def _read(raw: Path, home: Download) -> Table:
    """The public file as a table."""
    if home.member:
        return read_table_bytes(read_archive_member(raw, home.member), home.member, number_repeats=True)
    return read_table(raw, number_repeats=True)


def _own_columns(card: DatasetCard, home: Download, table: Table) -> tuple[Sequence[str], list[list[str]]]:
    """The columns of the card, by their names there, and the cells of all rows, in their order and as they stand."""
    try:
        places = [column_index(table, home.smiles_column)]
        if home.columns:
            names = [*card.target_columns]
            places += [column_index(table, home.columns[name]) for name in names]
        else:
            no_target = {home.smiles_column, *home.leave_out}
            names = [name for name in table.columns if name.strip() not in no_target]
            places += [column_index(table, name) for name in names]
    except UsageError as error:
        raise InputError(f"{error}: the file is not the one that the card of {card.name} describes") from error
    if not table.rows:
        raise InputError(f"{table.source} has no rows")
    return [card.smiles_column, *names], [[row[place] for place in places] for row in table.rows]
