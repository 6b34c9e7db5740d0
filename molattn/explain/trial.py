"""The trial of a run's attributions: over which molecules, beside which truth, and what is kept of it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from molattn.chem import atom_contributions
from molattn.data import dataset_names, guess_smiles_column, load_card, read_table
from molattn.data.tables.table import column
from molattn.errors import InputError, SmilesError, UsageError, short_repr
from molattn.explain.faithfulness import Faithfulness, measure
from molattn.explain.measured import write_measured
from molattn.models.artifact import Artifact
from molattn.models.base import Molecule
from molattn.training.config import read_config
from molattn.training.folders import CONFIG, MODEL

Read = Callable[[Iterable[object]], Sequence[Molecule | SmilesError]]


@dataclass(frozen=True)
class HeldOut:
    """Molecules to measure on.

    Attributes:
        smiles: theirs.
        data: what they are from, in words.
        side: of its split; empty for all.
    """

    smiles: list[str]
    data: str
    side: str


@dataclass(frozen=True)
class Trial:
    """What came of a trial.

    Attributes:
        found: what was measured.
        record: the same as it stands in faithfulness.json.
        truth: the property whose terms were compared with; empty for none.
        rejected: the SMILES that could not be read, with their reasons.
        of: how many molecules there were to choose from.
    """

    found: Faithfulness
    record: dict[str, Any]
    truth: str
    rejected: list[SmilesError]
    of: int


def trial(
    artifact: Artifact,
    read: Read,
    run: str | Path,
    *,
    table: str | Path | None = None,
    smiles_column: str = "",
    target: str | None = None,
    methods: Sequence[str] = (),
    max_molecules: int = 500,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Trial:
    """Measure the attributions of a run's model and keep the result as `faithfulness.json` in its folder.

    Args:
        artifact: the model.
        read: from SMILES to its molecules.
        run: the folder of the run.
        table: measure on its molecules; those that the run was tested on for None.
        smiles_column: of the table; found by its name when empty.
        target, methods, seed, progress: as for `measure`.
        max_molecules: at most so many, taken by chance, in their order.

    Raises:
        UsageError: no such method, target or column, not for this model, or a folder without test molecules and no
            table.
        InputError: a table that cannot be read, or no molecule in it.
    """
    run = Path(run)
    held = of_run(run) if table is None else of_table(table, smiles_column)
    outcomes = read(held.smiles)
    rejected = [o for o in outcomes if isinstance(o, SmilesError)]
    molecules = [o for o in outcomes if not isinstance(o, SmilesError)]
    if not molecules:
        raise InputError(f"none of the {len(outcomes)} molecules of {held.data} can be read")
    if len(molecules) > max_molecules:
        chosen = np.random.default_rng(seed).choice(len(molecules), max_molecules, replace=False)
        chosen = [molecules[i] for i in np.sort(chosen)]
    else:
        chosen = molecules
    what = known_terms(run, target or artifact.targets[0])
    limits = (artifact.max_atoms, artifact.add_hs)
    truth = None if not what else lambda m: atom_contributions(m.encoded_smiles, what, *limits)
    found = measure(artifact, chosen, target, truth=truth, methods=methods, seed=seed, progress=progress)  # pyright: ignore[reportArgumentType]
    model = run / MODEL if (run / MODEL).is_dir() else run
    record = write_measured(run, model, found, held.data, held.side, what)
    return Trial(found, record, what, rejected, len(molecules))


def of_run(run: Path) -> HeldOut:
    """The test molecules of a run.

    Raises:
        UsageError: the folder does not say which they were.
    """
    path = run / "predictions.csv"
    if not path.is_file():
        raise UsageError(
            f"{run} has no predictions.csv that says which molecules were held out: give some with --table"
        )
    table = read_table(path)
    sides, smiles = column(table, "split"), column(table, "smiles")
    return HeldOut([s for s, side in zip(smiles, sides, strict=True) if side == "test"], _dataset(run), "test")


def of_table(path: str | Path, smiles_column: str = "") -> HeldOut:
    """The molecules of a table."""
    table = read_table(path)
    return HeldOut(column(table, smiles_column or guess_smiles_column(table.columns)), Path(path).name, "")


def known_terms(run: Path, target: str) -> str:
    """The property whose terms RDKit knows, where a run learned it under its own name; empty otherwise."""
    name = _dataset(run)
    if name not in dataset_names():
        return ""
    card = load_card(name)
    return card.made if target in card.target_columns else ""


def _dataset(run: Path) -> str:
    """The data set of a run by its name, or the name of the file; the folder's own where it does not say."""
    if not (run / CONFIG).is_file():
        return run.name
    said = read_config(run / CONFIG).get("data", {}).get("dataset", "")
    if not isinstance(said, str):
        raise InputError(f"{run / CONFIG} says that the data set is {short_repr(said)}: it is damaged")
    return said if said in dataset_names() else Path(said).name
