"""The table of a run: its path, and its columns. Importing this module loads neither torch nor RDKit."""

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from molattn.data import dataset_names, fetch_dataset, guess_smiles_column, read_columns
from molattn.data.files import file_sha256
from molattn.data.tables.columns import find_column, format_names, is_unnamed
from molattn.data.tables.lines import STDIN
from molattn.data.tables.options import DEFAULT_TABLE_OPTIONS, TableOptions
from molattn.data.tables.units import find_without_unit, split_unit
from molattn.errors import InputError, UsageError, short_repr, unknown_choice
from molattn.models.names import ATOM_PREFIX, TASK_TYPES
from molattn.training.config import DataConfig

_ALIASES = {"classification": "binary", f"{ATOM_PREFIX}classification": f"{ATOM_PREFIX}binary"}


@dataclass(frozen=True)
class TableSource:
    """The table of a run.

    Attributes:
        config: the settings, with every column named.
        path: of the table.
        name: from its card, or the stem of its file name.
        units: unit of each target, from the card or in brackets at the end of its name; empty where unknown.
        message: how it was downloaded; empty if this call did not download it.
        columns_message: which columns match patterns such as "tox_*"; empty without patterns.
    """

    config: DataConfig
    path: Path
    name: str
    units: tuple[str, ...]
    message: str = ""
    columns_message: str = ""

    @property
    def sha256(self) -> str:
        """The checksum of the table's bytes."""
        return file_sha256(self.path)


def is_path(dataset: str) -> bool:
    """Whether a data set is given as the path of a table, rather than by name: a file, or a text with a suffix.

    A text with a suffix that is the name of a data set, such as "esol.v2", is a name.
    """
    if dataset == STDIN or (Path(dataset).suffix and dataset not in dataset_names()):
        return True
    return Path(dataset).is_file()


def find_table(config: DataConfig) -> TableSource:
    """Find the table that the settings name.

    Raises:
        UsageError: there is none, it cannot be downloaded, or the target columns are ambiguous.
    """
    config = replace(config, task_type=parse_task_type(config.task_type))
    if not config.dataset:
        raise UsageError("no data set is given: add --dataset esol, or the path of a table such as my.csv")
    if config.dataset == STDIN:
        raise UsageError("a run reads its table more than once, which standard input (-) does not allow: give a file")
    if is_path(config.dataset):
        path = Path(config.dataset)
        columns, smiles_column = _read_header(path, table_options_of(config))
        smiles = config.smiles_column or guess_smiles_column(columns, smiles_column)
        config, columns_message = _expand_patterns(config, columns, smiles)
        reserved = _reserved_columns(config, smiles)
        # A column without a name is the index of a data frame more often than a target.
        others = [c for c in columns if c.strip() not in reserved and not is_unnamed(c)]
        named = tuple(find_without_unit(columns, name) for name in config.target_columns)
        targets = named or (tuple(others) if len(others) == 1 else ())
        if not targets:
            raise UsageError(f"name the columns to learn with --target-columns: {path} has {', '.join(others)}")
        config = replace(config, smiles_column=smiles, target_columns=targets)
        _check_columns(config, columns, str(path))
        units = tuple(split_unit(name)[1] for name in targets)
        return TableSource(config, path, path.stem, units, "", columns_message)
    if table_options_of(config) != DEFAULT_TABLE_OPTIONS:
        raise UsageError(
            f"{config.dataset} is a data set of molattn: --encoding, --no-header-row and --sheet apply only to a path"
        )
    card, message = fetch_dataset(config.dataset, config.data_dir)
    smiles = config.smiles_column or card.smiles_column
    config, columns_message = _expand_patterns(config, read_columns(card.path)[0], smiles)
    card_targets = card.atom_targets if config.task_type.startswith(ATOM_PREFIX) else card.targets
    if config.task_type.startswith(ATOM_PREFIX) and not (card_targets or config.target_columns):
        raise UsageError(f"the data set {card.name} has no atom-level targets, as {config.task_type} needs them")
    targets = config.target_columns or tuple(t.name for t in card_targets)
    if not targets:
        reserved = _reserved_columns(config, smiles)
        targets = tuple(name for name in read_columns(card.path)[0] if name not in reserved)
    units = {t.name: t.unit for t in (*card.targets, *card.atom_targets)}
    molecule_level = {t.name for t in card.targets}
    config = replace(
        config,
        smiles_column=smiles,
        target_columns=targets,
        task_type=config.task_type or (parse_task_type(card.task) if set(targets) <= molecule_level else ""),
    )
    _check_columns(config, read_columns(card.path)[0], card.path.name)
    target_units = tuple(units.get(t, "") for t in targets)
    return TableSource(config, card.path, card.name, target_units, message, columns_message)


def _read_header(path: Path, options: TableOptions) -> tuple[tuple[str, ...], str | None]:
    """`read_columns`; the error for a missing file says what to do where the settings of another folder name it."""
    try:
        return read_columns(path, options)
    except InputError as error:
        if isinstance(error.__cause__, FileNotFoundError) and not path.is_absolute():
            advice = "run it in the folder from which this path leads to it, or give its path"
            raise InputError(f"{error}: {advice}") from error
        raise


def table_options_of(config: DataConfig) -> TableOptions:
    """How the table of a run is read."""
    return TableOptions(config.encoding, not config.no_header_row, config.sheet, config.decimal, config.thousands)


def parse_task_type(text: str) -> str:
    """The task type that a user wrote; empty stays empty, "classification" is "binary".

    Raises:
        UsageError: there is no such task type.
    """
    task_type = _ALIASES.get(text, text)
    if task_type and task_type not in TASK_TYPES:
        raise UsageError(unknown_choice("task type", text, TASK_TYPES))
    return task_type


def _reserved_columns(config: DataConfig, smiles: str) -> set[str]:
    """The names of the columns that are not targets."""
    others = (smiles, config.weight_column, config.group_column, config.split_column, *config.descriptor_columns)
    return {name.strip() for name in others}


def _expand_patterns(config: DataConfig, columns: Sequence[str], smiles: str) -> tuple[DataConfig, str]:
    """The settings with patterns of target and descriptor columns expanded, and a message on which columns match."""
    messages: list[str] = []
    for setting in ("descriptor_columns", "target_columns"):
        other = "target_columns" if setting == "descriptor_columns" else "descriptor_columns"
        texts: tuple[str, ...] = getattr(config, setting)
        reserved = _reserved_columns(replace(config, descriptor_columns=()), smiles) | {*getattr(config, other)}
        reserved |= {name.strip() for name in columns if is_unnamed(name)}
        names = expand_columns(texts, columns, reserved, f"--{setting.replace('_', '-')}")
        if names != texts:
            messages.append(f"{', '.join(map(short_repr, texts))} in {setting}: {format_names(names)}")
        config = replace(config, **{setting: names})
    return config, "; ".join(messages)


def expand_columns(
    texts: Sequence[str], columns: Sequence[str], reserved: Container[str], option: str
) -> tuple[str, ...]:
    """The names of the columns that `texts` select, in this order, each once.

    A text is the first of these that applies: the name of a column; names and patterns, separated by commas; a pattern
    for the columns that are not `reserved`, in which `*` stands for any characters and `?` for one. Any other text is
    returned unchanged.

    Raises:
        UsageError: a pattern that matches no column; the message names `option`.
    """
    stripped = [name.strip() for name in columns]
    found: list[str] = []
    for text in texts:
        if text.strip() in stripped:
            found.append(text)
        elif "," in text:
            found += expand_columns([part.strip() for part in text.split(",")], columns, reserved, option)
        elif "*" in text or "?" in text:
            pattern = text.strip().replace("[", "[[]")  # brackets are part of names, such as "c [mol/L]"
            chosen = [name for name in stripped if name not in reserved and fnmatchcase(name, pattern)]
            if not chosen:
                others = format_names([name for name in stripped if name not in reserved])
                raise UsageError(f"{option} {short_repr(text)} matches no column: the table has {others}")
            found += chosen
        else:
            found.append(text)
    return tuple(dict.fromkeys(found))


def _check_columns(config: DataConfig, columns: Sequence[str], source: str) -> None:
    """Raise InputError for a column that the table does not have, before its molecules are read."""
    named = (config.smiles_column, *config.target_columns, config.weight_column, config.group_column)
    named = (*named, config.split_column, *config.descriptor_columns)
    if len(set(columns)) == len(columns):
        for name in filter(None, named):
            find_column(columns, name, source)
