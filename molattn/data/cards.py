"""Data sets that molattn carries: one card (TOML) and one table (CSV) each, in one folder.

Adding a data set is adding its card and its table to that folder; no code changes.
"""

import difflib
import hashlib
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from molattn.errors import InputError, UsageError, shown


@dataclass(frozen=True)
class TargetColumn:
    """One measured column of a table."""

    name: str
    unit: str
    description: str


@dataclass(frozen=True)
class DatasetCard:
    """What a data set is, where it comes from and how results on it are reported."""

    name: str
    """What `--dataset` takes."""
    title: str
    folder: Path
    """The folder of the card and its table."""
    file: str
    """The table's file name in `folder`."""
    sha256: str
    """Of the table's bytes, in hexadecimal."""
    rows: int
    """Data rows in the table, without the header."""
    smiles_column: str
    targets: tuple[TargetColumn, ...]
    task: str
    """`regression` or `classification`."""
    metric: str
    """What results are reported in, such as `rmse`."""
    split: str
    """The split to take when none is asked for: a name in `molattn.data.splits.SPLITS`."""
    source: str
    citation: tuple[str, ...]
    licence: str
    notes: tuple[str, ...]

    @property
    def path(self) -> Path:
        """The table."""
        return self.folder / self.file

    @property
    def target_columns(self) -> tuple[str, ...]:
        """The names of the target columns."""
        return tuple(target.name for target in self.targets)


def datasets_dir() -> Path:
    """The folder of cards and tables: inside the package when installed, beside it in a checkout.

    Raises InputError when neither is there.
    """
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "_datasets", package.parent / "datasets"):
        # A folder counts by its cards: another project's package may be called `datasets` as well.
        if any(folder.glob("*.toml")):
            return folder
    raise InputError(f"no data sets were found beside {package}: reinstall molattn, or give a file of your own")


def dataset_names() -> tuple[str, ...]:
    """The names of the data sets at hand, sorted."""
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
        raise InputError(f"{path}: the card says name = {shown(card.name)}, its file says {shown(name)}")
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

    Raises InputError when the file is missing or its sha256 differs.
    """
    try:
        found = hashlib.sha256(card.path.read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(f"{card.path}: cannot be read ({error.strerror}): reinstall molattn") from error
    if found != card.sha256:
        raise InputError(
            f"{card.path}: sha256 is {found}, the card says {card.sha256}: the file was changed or damaged; "
            "put the original back or reinstall molattn"
        )


def _require_known(name: str) -> None:
    names = dataset_names()
    if name not in names:
        close = difflib.get_close_matches(name.lower(), names, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise UsageError(f"there is no data set {shown(name)}; known: {', '.join(names)}{hint}")


def _card(folder: Path, fields: dict[str, Any]) -> DatasetCard:
    """The card from its TOML fields, read one by one so that a missing one is named."""
    return DatasetCard(
        name=fields["name"],
        title=fields["title"],
        folder=folder,
        file=fields["file"],
        sha256=fields["sha256"],
        rows=fields["rows"],
        smiles_column=fields["smiles_column"],
        targets=tuple(TargetColumn(**target) for target in fields["targets"]),
        task=fields["task"],
        metric=fields["metric"],
        split=fields["split"],
        source=fields["source"],
        citation=tuple(fields["citation"]),
        licence=fields["licence"],
        notes=tuple(fields["notes"]),
    )
