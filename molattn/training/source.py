"""The table that a run learns from: where it lies, and what its columns are."""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

from molattn.data import guess_smiles_column, obtain, read_columns
from molattn.errors import UsageError
from molattn.models.tasks import ATOM_PREFIX
from molattn.training.config import DataConfig
from molattn.training.targets import task_kind


@dataclass(frozen=True)
class Source:
    """A table that was found.

    Attributes:
        data: the settings, with every column named.
        path: where it lies.
        name: its card's, or the stem of its file.
        units: unit of each target, empty where unknown.
        said: how it came here, if that was now; empty otherwise.
    """

    data: DataConfig
    path: Path
    name: str
    units: tuple[str, ...]
    said: str = ""

    @property
    def sha256(self) -> str:
        """The checksum of the table's bytes."""
        return hashlib.sha256(self.path.read_bytes()).hexdigest()


def is_path(dataset: str) -> bool:
    """Whether a data set is given as the path of a table, not by its name."""
    return bool(Path(dataset).suffix) or Path(dataset).is_file()


def find_source(data: DataConfig) -> Source:
    """The table that the settings name.

    Raises:
        UsageError: there is none, it cannot be had, or which of its columns to learn is not said.
    """
    data = replace(data, task_type=task_kind(data.task_type))
    if not data.dataset:
        raise UsageError("say what to learn from: --dataset esol, or the path of a table such as my.csv")
    if is_path(data.dataset):
        path = Path(data.dataset)
        columns, known = read_columns(path)
        smiles = data.smiles_column or guess_smiles_column(columns, known)
        no_target = _no_targets(data, smiles)
        others = [c for c in columns if c.strip() not in no_target]
        targets = data.target_columns or (tuple(others) if len(others) == 1 else ())
        if not targets:
            raise UsageError(f"say which column to learn with --target-columns: {path} has {', '.join(others)}")
        data = replace(data, smiles_column=smiles, target_columns=targets)
        return Source(data, path, path.stem, ("",) * len(targets))
    card, said = obtain(data.dataset, data.data_dir)
    smiles = data.smiles_column or card.smiles_column
    of_card = card.atom_targets if data.task_type.startswith(ATOM_PREFIX) else card.targets
    if data.task_type.startswith(ATOM_PREFIX) and not (of_card or data.target_columns):
        raise UsageError(f"the data set {card.name} has no targets of atoms, as {data.task_type} needs them")
    targets = data.target_columns or tuple(t.name for t in of_card)
    if not targets:
        no_target = _no_targets(data, smiles)
        targets = tuple(name for name in read_columns(card.path)[0] if name not in no_target)
    units = {t.name: t.unit for t in (*card.targets, *card.atom_targets)}
    known = {t.name for t in card.targets}
    data = replace(
        data,
        smiles_column=smiles,
        target_columns=targets,
        task_type=data.task_type or (task_kind(card.task) if set(targets) <= known else ""),
    )
    return Source(data, card.path, card.name, tuple(units.get(t, "") for t in targets), said)


def _no_targets(data: DataConfig, smiles: str) -> set[str]:
    """The names of the columns that are something else."""
    others = (smiles, data.weight_column, data.group_column, data.split_column, *data.descriptor_columns)
    return {name.strip() for name in others}
