"""Data sets that molattn knows: one card (TOML) each, in one folder, with the table (CSV) where molattn carries it.

Adding a data set is adding its card to that folder, with its table or where it is downloaded; no code changes.
"""

import difflib
import hashlib
import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from molattn.errors import InputError, UsageError, short_repr


@dataclass(frozen=True)
class TargetColumn:
    """One measured column of a table."""

    name: str
    unit: str
    description: str


@dataclass(frozen=True)
class Download:
    """The public file that a table is made from."""

    urls: tuple[str, ...]
    """Where it lies, tried in this order."""
    file: str
    """Its name in the folder `downloads`; a `.gz` is read through, a `.zip` or `.tar.gz` needs `member`."""
    smiles_column: str
    """The file's own name for the column of SMILES."""
    columns: dict[str, str]
    """The file's own name of each target column; none: every column but `leave_out` is a target, by its own name."""
    leave_out: tuple[str, ...] = ()
    """Columns that are no targets, where `columns` is empty."""
    sha256: str = ""
    """Of the file's bytes; empty when nobody held it. The first download is then pinned on the user's machine."""
    member: str = ""
    """The table's name within an archive."""


@dataclass(frozen=True)
class DatasetCard:
    """What a data set is, where it comes from and how results on it are reported."""

    name: str
    """What `--dataset` takes."""
    title: str
    folder: Path
    """The folder of the table; that of the card before the table was looked for."""
    file: str
    """The table's file name in `folder`."""
    verified: bool
    """Whether the table was held when the card was written."""
    sha256: str
    """Of the table's bytes, in hexadecimal; empty when it was not held."""
    rows: int | None
    """Data rows in the table, without the header; None when it was not held."""
    smiles_column: str
    targets: tuple[TargetColumn, ...]
    """None: every column of the table but that of SMILES is one."""
    task: str
    """`regression` or `classification`."""
    metric: str
    """What results are reported in, such as `rmse` or `auroc`."""
    split: str
    """The split to take when none is asked for: a name in `molattn.data.splits.splitters.SPLITS`."""
    source: str
    citation: tuple[str, ...]
    licence: str
    notes: tuple[str, ...]
    download: Download | None = None
    """Where the table comes from; None when molattn carries it or makes it."""
    atom_targets: tuple[TargetColumn, ...] = ()
    """Columns that hold a list with a value for each atom, in the order of the SMILES."""
    made: str = ""
    """What RDKit computes for the molecules that come with it: a key of `molattn.chem.CONTRIBUTIONS`."""

    @property
    def path(self) -> Path:
        """The table."""
        return self.folder / self.file

    @property
    def target_columns(self) -> tuple[str, ...]:
        """The names of the target columns."""
        return tuple(target.name for target in self.targets)


def datasets_dir() -> Path:
    """The folder of cards, and of the tables that molattn carries: in the package, or beside it in a checkout.

    Raises InputError when neither is there.
    """
    package = Path(__file__).resolve().parents[2]
    for folder in (package / "_datasets", package.parent / "datasets"):
        # A folder counts by its cards: another project's package may be called `datasets` as well.
        if any(folder.glob("*.toml")):
            return folder
    raise InputError(f"no data sets were found beside {package}: reinstall molattn, or give a file of your own")


def dataset_names() -> tuple[str, ...]:
    """The names of all data sets, sorted."""
    return tuple(sorted(path.stem for path in datasets_dir().glob("*.toml")))


def load_card(name: str) -> DatasetCard:
    """The card of the data set `name`.

    Raises UsageError for an unknown name, InputError for a card that does not say what it must.
    """
    folder = datasets_dir()
    _require_known(name)
    path = folder / f"{name}.toml"
    try:
        card = _card(folder, tomllib.loads(path.read_text(encoding="utf-8")))
    except KeyError as error:
        raise InputError(f"{path}: the card has no {error}") from error
    except (TypeError, ValueError) as error:
        raise InputError(f"{path}: not a card: {error}") from error
    if card.name != name:
        raise InputError(f"{path}: the card says name = {short_repr(card.name)}, its file says {short_repr(name)}")
    return card


def split_files(name: str) -> dict[str, Path]:
    """The split files kept for the data set `name`, by the name of the split.

    Raises UsageError for an unknown data set.
    """
    _require_known(name)
    paths = sorted((datasets_dir() / "splits").glob(f"{name}-*.csv"))
    return {path.stem.removeprefix(f"{name}-"): path for path in paths}


def verify(card: DatasetCard) -> None:
    """Check that the table is, byte for byte, the one that the card describes.

    A table that molattn downloaded or made itself is compared with what it wrote down then, in `NAME.pin.json` beside
    it. One for which there is neither is taken as it is.

    Raises InputError when the file is missing or its sha256 differs.
    """
    try:
        found = hashlib.sha256(card.path.read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(f"{card.path}: cannot be read ({error.strerror}): reinstall molattn") from error
    pin = read_pin(card)
    expected, says = (pin.table_sha256, pin_path(card).name) if pin is not None else (card.sha256, "the card")
    if expected and found != expected:
        carried = card.download is None and not card.made
        cure = "put the original back or reinstall molattn" if carried else "remove it, and it is fetched or made again"
        raise InputError(
            f"{card.path}: sha256 is {found}, {says} says {expected}: the file was changed or damaged; {cure}"
        )


@dataclass(frozen=True)
class Pin:
    """What molattn wrote down of a table that it downloaded or made."""

    source: str
    """The address it came from, or what made it."""
    source_sha256: str
    """Of the downloaded file; empty for a table that was made."""
    table_sha256: str
    rows: int


def pin_path(card: DatasetCard) -> Path:
    """The file of the pin, beside the table."""
    return card.folder / f"{card.name}.pin.json"


def read_pin(card: DatasetCard) -> Pin | None:
    """The pin of the table in `card.folder`; None where there is none.

    Raises InputError for one that cannot be read.
    """
    path = pin_path(card)
    try:
        return Pin(**json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, TypeError, ValueError) as error:
        raise InputError(f"{path} is damaged: remove it together with {card.file}") from error


def _require_known(name: str) -> None:
    names = dataset_names()
    if name not in names:
        close = difflib.get_close_matches(name.lower(), names, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise UsageError(f"there is no data set {short_repr(name)}; known: {', '.join(names)}{hint}")


def _card(folder: Path, fields: dict[str, Any]) -> DatasetCard:
    """The card from its TOML fields, read one by one so that a missing one is named."""
    verified = fields.get("verified", True)
    download = fields.get("download")
    return DatasetCard(
        name=fields["name"],
        title=fields["title"],
        folder=folder,
        file=fields["file"],
        verified=verified,
        sha256=fields["sha256"] if verified else "",
        rows=fields["rows"] if verified else None,
        smiles_column=fields["smiles_column"],
        targets=tuple(TargetColumn(**target) for target in fields.get("targets", ())),
        atom_targets=tuple(TargetColumn(**target) for target in fields.get("atom_targets", ())),
        task=fields["task"],
        metric=fields["metric"],
        split=fields["split"],
        source=fields["source"],
        citation=tuple(fields["citation"]),
        licence=fields["licence"],
        notes=tuple(fields["notes"]),
        download=None if download is None else _download(download),
        made=fields.get("made", ""),
    )


def _download(fields: dict[str, Any]) -> Download:
    return Download(
        urls=tuple(fields["urls"]),
        file=fields["file"],
        smiles_column=fields["smiles_column"],
        columns=dict(fields.get("columns", {})),
        leave_out=tuple(fields.get("leave_out", ())),
        sha256=fields["sha256"] if fields.get("verified", True) else "",
        member=fields.get("member", ""),
    )
