"""Dataset cards: one TOML file for each data set, in one folder, with its table (CSV) if it is bundled with molattn.

To add a data set, add its card to that folder, with its table or the address of its download; no code changes. The
cards of a group, the tasks of a benchmark, are in a folder of their own, whose name is the first part of theirs.
"""

import difflib
import json
import os
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from molattn.cache import cache_folder
from molattn.data.files import file_sha256
from molattn.errors import InputError, UsageError, short_repr

DATA_VARIABLE = "MOLATTN_DATA"
"""The environment variable of folders that are searched first; several are separated as in PATH."""


def data_dirs(data_dir: str | Path = "") -> list[Path]:
    """The folders that are searched for a table, in this order.

    `data_dir`, the folders in MOLATTN_DATA, the bundled data sets and the user's cache. They need not exist.

    Args:
        data_dir: the folder that is searched first; "" for none.

    Raises:
        InputError: the bundled data sets are missing: see `datasets_dir`.

    >>> from molattn.data import cache_dir, data_dirs, datasets_dir
    >>> folders = data_dirs("my-tables")
    >>> folders[0].name, folders[-2:] == [datasets_dir(), cache_dir()]
    ('my-tables', True)
    """
    first = [Path(data_dir).expanduser()] if data_dir else []
    return [*first, *_user_dirs(), datasets_dir(), cache_dir()]


def _user_dirs() -> list[Path]:
    """The folders in MOLATTN_DATA."""
    return [Path(folder).expanduser() for folder in os.environ.get(DATA_VARIABLE, "").split(os.pathsep) if folder]


def cache_dir() -> Path:
    """The folder of downloaded and computed tables; it may not exist yet.

    It is `datasets` in the folder of the environment variable MOLATTN_CACHE, if that is set; else in the folder
    `molattn` of the user's cache folder, such as `~/.cache` on Linux.

    >>> from molattn.data import cache_dir
    >>> cache_dir().name
    'datasets'
    """
    return cache_folder() / "datasets"


def molecule_cache_dir() -> Path:
    """The folder of featurized molecules: see `cache_folder`."""
    return cache_folder() / "molecules"


@dataclass(frozen=True)
class TargetColumn:
    """One measured column of a table.

    Attributes:
        name: its name in the table.
        unit: its unit, such as "log10(mol/L)".
        description: what was measured, in one sentence.

    >>> from molattn.data import load_card
    >>> target = load_card("esol").targets[0]
    >>> target.name, target.unit
    ('log_solubility', 'log10(mol/L)')
    """

    name: str
    unit: str
    description: str


@dataclass(frozen=True)
class Download:
    """The public file that a table is built from.

    Attributes:
        urls: its addresses, tried in this order.
        file: its name in the folder `downloads`; a `.gz` is decompressed, a `.zip` or `.tar.gz` needs `member`.
        smiles_column: the name of the column of SMILES in the file.
        columns: from the name of each target column in the card to its name in the file. If empty, every column except
            SMILES and `leave_out` is a target and keeps its name.
        leave_out: columns that are not targets, if `columns` is empty.
        sha256: the checksum of the file; if empty, that of the first download is pinned on the user's machine.
        member: the name of the table within an archive.
        other_columns: from the name of each further column of the table to its name in the file.
        parts: from each label of the official split to the table of its rows within an archive; empty if the file is
            one table. The rows are joined in this order.

    >>> from molattn.data import load_card
    >>> download = load_card("freesolv").download
    >>> download.file, download.columns
    ('SAMPL.csv', {'hydration_free_energy': 'expt'})
    """

    urls: tuple[str, ...]
    file: str
    smiles_column: str
    columns: dict[str, str]
    leave_out: tuple[str, ...] = ()
    sha256: str = ""
    member: str = ""
    other_columns: dict[str, str] = field(default_factory=dict)
    parts: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class OfficialSplit:
    """The split of a benchmark: fixed test rows, and a rule that takes validation rows from the others by a seed.

    Attributes:
        column: the table's column with "train" or "test" in each row.
        validation: the rule: a key of `molattn.data.splits.official.VALIDATION`.
        share: the share of the rows that are not test rows, for validation.

    >>> from molattn.data import load_card
    >>> load_card("tdc/caco2_wang").official_split
    OfficialSplit(column='split', validation='tdc-scaffold', share=0.125)
    """

    column: str
    validation: str
    share: float


@dataclass(frozen=True)
class DatasetCard:
    """What a data set is, where it comes from and how results on it are reported.

    Attributes:
        name: the value of `--dataset`; that of a data set in a group begins with the group and a slash.
        title: the data set in one line.
        folder: the folder of the table; before `find_dataset`, that of the card.
        file: the table's file name in `folder`.
        sha256: the checksum of the table, in hexadecimal; empty if it was not available.
        rows: data rows in the table, without the header; None if it was not available.
        smiles_column: the name of the column of SMILES.
        targets: the target columns. If empty, every column of the table except `smiles_column` is a target.
        task: "regression" or "classification".
        metric: the metric of reported results, such as "rmse" or "auroc".
        split: the split that results are usually reported on, such as "scaffold"; training reads `official_split` only.
        source: where the table comes from, in a sentence.
        citation: the publications to cite.
        licence: the terms of the table.
        notes: what users of the table should know, such as duplicate molecules, one sentence each.
        download: where the table is downloaded from; None if it is bundled or computed.
        atom_targets: columns with a list of values, one for each atom, in the order of the SMILES.
        computed: the atomic contribution that RDKit computes for the molecules bundled with it: a key of
            `molattn.chem.CONTRIBUTIONS`; empty for measured targets.
        official_split: the split that training uses by default; None if there is none.

    >>> from molattn.data import load_card
    >>> card = load_card("esol")
    >>> card.path.name, card.rows, card.target_columns, card.metric
    ('esol.csv', 1128, ('log_solubility',), 'rmse')
    """

    name: str
    title: str
    folder: Path
    file: str
    sha256: str
    rows: int | None
    smiles_column: str
    targets: tuple[TargetColumn, ...]
    task: str
    metric: str
    split: str
    source: str
    citation: tuple[str, ...]
    licence: str
    notes: tuple[str, ...]
    download: Download | None = None
    atom_targets: tuple[TargetColumn, ...] = ()
    computed: str = ""
    official_split: OfficialSplit | None = None

    @property
    def group(self) -> str:
        """The group that the data set belongs to; empty for none."""
        return group_of(self.name)

    @property
    def path(self) -> Path:
        """The path of the table."""
        return self.folder / self.file

    @property
    def target_columns(self) -> tuple[str, ...]:
        """The names of the target columns."""
        return tuple(target.name for target in self.targets)


def datasets_dir() -> Path:
    """The folder of cards and of bundled tables: in the package, or next to it in a checkout.

    Raises:
        InputError: neither exists.

    >>> from molattn.data import datasets_dir
    >>> (datasets_dir() / "esol.csv").is_file()
    True
    """
    package = Path(__file__).resolve().parents[2]
    for folder in (package / "_datasets", package.parent / "datasets"):
        # A folder is recognized by its cards: the package of another project may be called `datasets` as well.
        if any(folder.glob("*.toml")):
            return folder
    raise InputError(f"no data sets were found next to {package}: reinstall molattn, or give a file of your own")


def dataset_names() -> tuple[str, ...]:
    """The names of all data sets that have a card, bundled or in a folder of MOLATTN_DATA, sorted.

    Raises:
        InputError: the bundled data sets are missing: see `datasets_dir`.

    >>> from molattn.data import dataset_names
    >>> {"bbbp", "esol", "freesolv"} <= set(dataset_names())
    True
    """
    return tuple(sorted(_card_paths()))


def group_of(name: str) -> str:
    """The group of a data set, by its name; empty for none.

    >>> from molattn.data import group_of
    >>> group_of("tdc/caco2_wang"), group_of("esol")
    ('tdc', '')
    """
    return name.rpartition("/")[0]


def file_stem(name: str) -> str:
    """The name of a data set as a part of file names."""
    return name.replace("/", "-")


def _card_paths() -> dict[str, Path]:
    """The card of each data set; a bundled one is not replaced by another of its name."""
    paths = {f"{path.parent.name}/{path.stem}": path for path in datasets_dir().glob("*/*.toml")}
    for folder in (datasets_dir(), *_user_dirs()):
        for path in sorted(folder.glob("*.toml")):
            if folder == datasets_dir() or _has_card(path):
                paths.setdefault(path.stem, path)
    return paths


def _has_card(path: Path) -> bool:
    """Whether a file of a user's folder, which may hold other TOML files, is a card of the name of the file."""
    try:
        fields = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return fields.get("name") == path.stem and "smiles_column" in fields


def load_card(name: str) -> DatasetCard:
    """The card of a data set.

    Args:
        name: one of `dataset_names()`.

    Raises:
        UsageError: there is no such data set.
        InputError: the card is invalid, or the bundled data sets are missing: see `datasets_dir`.

    >>> from molattn.data import load_card
    >>> card = load_card("esol")
    >>> card.rows, card.task, card.split
    (1128, 'regression', 'random')
    """
    paths = _card_paths()
    _check_name(name, tuple(sorted(paths)))
    path = paths[name]
    try:
        card = _card(path.parent, tomllib.loads(path.read_text(encoding="utf-8")))
    except KeyError as error:
        raise InputError(f"{path}: the card has no {error}") from error
    except (TypeError, ValueError) as error:
        raise InputError(f"{path}: invalid card: {error}") from error
    if card.name != name:
        raise InputError(f"{path}: its name is {short_repr(card.name)}, that of its file is {short_repr(name)}")
    return card


def verify(card: DatasetCard) -> None:
    """Check that a table is, byte for byte, the one that its card describes.

    A table that molattn downloaded or computed is compared with the checksum that it stored then, in `NAME.pin.json`
    next to it: see `Pin`. A table without any checksum is accepted.

    Args:
        card: the card, with the folder of the table.

    Raises:
        InputError: the table or its pin cannot be read, or the sha256 of the table differs.

    >>> from dataclasses import replace
    >>> from molattn.data import load_card, verify
    >>> from molattn.errors import InputError
    >>> card = load_card("esol")
    >>> verify(card)  # no error
    >>> try:
    ...     verify(replace(card, sha256="0" * 64))
    ... except InputError:
    ...     print("the table is another one")
    the table is another one
    """
    try:
        found = file_sha256(card.path)
    except OSError as error:
        raise InputError(f"{card.path}: cannot be read ({error.strerror}): reinstall molattn") from error
    pin = read_pin(card)
    expected, described_by = (pin.table_sha256, pin_path(card).name) if pin is not None else (card.sha256, "the card")
    if expected and found != expected:
        bundled = card.download is None and not card.computed
        advice = (
            "restore the original, or reinstall molattn"
            if bundled
            else "remove it, and it is downloaded or computed again"
        )
        raise InputError(
            f"{card.path}: sha256 is {found}, that in {described_by} is {expected}: "
            f"the file was changed or damaged; {advice}"
        )


@dataclass(frozen=True)
class Pin:
    """What molattn stores about a table that it downloaded or computed, in `NAME.pin.json` next to it.

    Attributes:
        source: the address of the download, or the path of a file that was there; or the program that computed the
            table.
        source_sha256: the checksum of the downloaded file; empty for a computed table.
        table_sha256: the checksum of the table.
        rows: its number of rows, without the header.

    >>> import json
    >>> from molattn.data import Pin
    >>> text = '{"source": "RDKit 2025.09.1", "source_sha256": "", "table_sha256": "8d96cc", "rows": 4999}'
    >>> Pin(**json.loads(text)).rows
    4999
    """

    source: str
    source_sha256: str
    table_sha256: str
    rows: int


def pin_path(card: DatasetCard) -> Path:
    """The file of the pin, next to the table."""
    return card.folder / f"{file_stem(card.name)}.pin.json"


def read_pin(card: DatasetCard) -> Pin | None:
    """The pin of the table in `card.folder`, or None.

    Raises InputError if it cannot be read.
    """
    path = pin_path(card)
    try:
        return Pin(**json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, TypeError, ValueError) as error:
        raise InputError(f"{path} is damaged: remove it together with {card.file}") from error


def _check_name(name: str, names: Sequence[str]) -> None:
    if name not in names:
        lower = {known.lower(): known for known in names}
        close = difflib.get_close_matches(name.lower(), lower, n=1)
        hint = f"did you mean {lower[close[0]]!r}?" if close else "a table of your own is a path, such as my.csv."
        group = group_of(name)
        listed = [known for known in names if group_of(known) == group]
        if not listed or not group:
            listed = [known for known in names if not group_of(known)]
            listed += [f"{count} of {of}/" for of, count in Counter(filter(None, map(group_of, names))).items()]
        raise UsageError(f"there is no data set {short_repr(name)}: {hint} There are {', '.join(listed)}")


def _card(folder: Path, fields: dict[str, Any]) -> DatasetCard:
    """The card from its TOML fields; a missing one raises KeyError."""
    verified = fields.get("verified", True)
    download = fields.get("download")
    return DatasetCard(
        name=fields["name"],
        title=fields["title"],
        folder=folder,
        file=fields["file"],
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
        computed=fields.get("computed", ""),
        official_split=OfficialSplit(**fields["official_split"]) if "official_split" in fields else None,
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
        other_columns=dict(fields.get("other_columns", {})),
        parts=dict(fields.get("parts", {})),
    )
