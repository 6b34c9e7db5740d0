"""Dataset cards: one TOML file for each data set, in one folder, with its table (CSV) if it is bundled with molattn.

To add a data set, add its card to that folder, with its table or the address of its download; no code changes. The
cards of a group, which are the tasks of a benchmark, are in a folder with the name of the group: `GROUP/NAME.toml`.
"""

import difflib
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from molattn.data.datasets.folders import datasets_dir, user_dirs
from molattn.errors import InputError, UsageError, short_repr


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
        urls: its URLs, tried in this order.
        file: its name in the folder `downloads`; a `.gz` is decompressed, a `.zip` or `.tar.gz` needs `member`.
        smiles_column: the name of the column of SMILES in the file.
        columns: from the name of each target column in the card to its name in the file. If empty, every column except
            SMILES and `leave_out` is a target and keeps its name.
        leave_out: columns that are not targets, if `columns` is empty.
        sha256: the checksum of the file; if empty, that of the first download is stored on the user's machine as a pin.
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
    """The split of a benchmark: fixed test rows; validation rows are selected from the others with a seed.

    Attributes:
        column: the table's column with "train" or "test" in each row.
        validation: how validation rows are selected: a key of `molattn.data.splits.official.VALIDATION_METHODS`.
        share: the share of validation rows among the rows that are not test rows.

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
        split: the split that results are usually reported on, such as "scaffold"; training uses `official_split` only.
        source: where the table comes from, in a sentence.
        citation: the publications to cite.
        licence: the terms of the table.
        notes: what users of the table should know, such as duplicate molecules, one sentence each.
        download: where the table is downloaded from; None if it is bundled or computed.
        atom_targets: columns with a list of values, one for each atom, in the order of the SMILES.
        computed: the atomic contributions that are computed with RDKit, for molecules that come with RDKit: a key of
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
        """The group of the data set; empty for none."""
        return group_of(self.name)

    @property
    def path(self) -> Path:
        """The path of the table."""
        return self.folder / self.file

    @property
    def target_columns(self) -> tuple[str, ...]:
        """The names of the target columns."""
        return tuple(target.name for target in self.targets)


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

    Args:
        name: the name of the data set.

    >>> from molattn.data import group_of
    >>> group_of("tdc/caco2_wang"), group_of("esol")
    ('tdc', '')
    """
    return name.rpartition("/")[0]


def file_stem(name: str) -> str:
    """The name of a data set, with a hyphen for the slash, for file names."""
    return name.replace("/", "-")


def _card_paths() -> dict[str, Path]:
    """The path of each card, by name; a card of a user does not replace a bundled one of the same name."""
    paths = {f"{path.parent.name}/{path.stem}": path for path in datasets_dir().glob("*/*.toml")}
    for folder in (datasets_dir(), *user_dirs()):
        for path in sorted(folder.glob("*.toml")):
            if folder == datasets_dir() or _has_card(path):
                paths.setdefault(path.stem, path)
    return paths


def _has_card(path: Path) -> bool:
    """Whether a TOML file in a folder of a user is a card, and has the name of the file."""
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
    """The card from the fields of its TOML file. Raises KeyError for a missing field."""
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
