"""Faithfulness of the attributions of a run: choice of molecules and ground truth, and storage of the results."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from molattn.chem import atom_contributions
from molattn.data import dataset_names, guess_smiles_column, load_card, read_table
from molattn.data.tables.options import DEFAULT_TABLE_OPTIONS, TableOptions
from molattn.data.tables.table import column
from molattn.errors import InputError, MolattnWarning, SmilesError, UsageError, short_repr
from molattn.explain.attribute import choose_attribution_method, target_index
from molattn.explain.changes_of_table import ReadMolecules, changes_of_table
from molattn.explain.faithfulness import Faithfulness, measure_faithfulness
from molattn.explain.faithfulness_file import write_faithfulness
from molattn.explain.fragment_shapley import FRAGMENT_SHAPLEY, count_fragments
from molattn.models.artifact import Artifact
from molattn.models.base import Molecule
from molattn.models.tasks import Multiclass
from molattn.training.run_config import read_config
from molattn.training.run_status import CONFIG_FILE, model_folder

MAX_EDITS, MAX_PAIRS, MAX_STABILITY = 100, 200, 30
"""Largest numbers of edits of a measure, of matched pairs, and of molecules for stability."""
MAX_FRAGMENTS = 10_000
"""Largest number of fragments of the molecules of a quick measurement: two to four seconds on one core."""


@dataclass(frozen=True)
class EvaluationMolecules:
    """Molecules on which faithfulness is measured.

    Attributes:
        smiles: their SMILES.
        data: name of their data set or file.
        split: their split label; empty for all molecules.
        measured: measured molecules for matched pairs: their SMILES, their cells of the column of the target, and
            whether each was held out from the training; None without measured values.
    """

    smiles: list[str]
    data: str
    split: str
    measured: tuple[list[str], list[str], list[bool]] | None = None


@dataclass(frozen=True)
class RunFaithfulness:
    """The faithfulness of the attributions of a run.

    Attributes:
        faithfulness: the results.
        record: their entry in faithfulness.json.
        ground_truth_property: the property whose true contributions were compared with; empty for none.
        rejected: the errors of SMILES that could not be read.
        num_candidates: number of molecules from which the measured ones were sampled.
    """

    faithfulness: Faithfulness
    record: dict[str, Any]
    ground_truth_property: str
    rejected: list[SmilesError]
    num_candidates: int


def measure_run(
    artifact: Artifact,
    read: ReadMolecules,
    run: str | Path,
    *,
    table: str | Path | None = None,
    smiles_column: str = "",
    table_options: TableOptions = DEFAULT_TABLE_OPTIONS,
    target: str | None = None,
    methods: Sequence[str] = (),
    max_molecules: int = 500,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> RunFaithfulness:
    """Measure the faithfulness of the attributions of a run's model, and save it as `faithfulness.json` in its folder.

    Args:
        artifact: the model, which must be the one in the folder of the run.
        read: a function from SMILES to the molecules that the model reads.
        run: the folder of the run.
        table: a table of molecules; None for the test molecules of the run.
        smiles_column: column of the table; if empty, guessed by name.
        table_options: encoding, header and sheet of the table.
        target, methods, seed, progress: as for `measure_faithfulness`.
        max_molecules: largest number of molecules; more are sampled at random, in their order. Of edits, matched pairs
            and molecules for stability there are no more either, and at most `MAX_EDITS`, `MAX_PAIRS` and
            `MAX_STABILITY`. They are not measured for a model of hydrogens as atoms.

    Raises:
        UsageError: unknown method, target or column, one that the model does not support, or a folder without test
            molecules and no table.
        InputError: a table that cannot be read, or without molecules.
    """
    run = Path(run)
    measured_column = _target_column(artifact, target)
    if table is None:
        source = molecules_of_run(run, measured_column)
    else:
        source = molecules_of_table(
            table, smiles_column, table_options, artifact.read_options.max_atoms, measured_column
        )
    results = read(source.smiles)
    rejected = [r for r in results if isinstance(r, SmilesError)]
    molecules = [r for r in results if not isinstance(r, SmilesError)]
    if not molecules:
        raise InputError(f"none of the {len(results)} molecules of {source.data} can be read")
    if len(molecules) > max_molecules:
        sample = np.random.default_rng(seed).choice(len(molecules), max_molecules, replace=False)
        sample = [molecules[i] for i in np.sort(sample)]
    else:
        sample = molecules
    name = ground_truth_property(run, target or artifact.targets[0])
    limits = (artifact.read_options.max_atoms, artifact.read_options.add_hs)
    true_contributions = None if not name else lambda m: atom_contributions(m.encoded_smiles, name, *limits)
    pairs, without_hydrogens = None, not artifact.read_options.add_hs
    if source.measured is not None and without_hydrogens:
        smiles, cells, held_out = source.measured
        max_pairs = min(MAX_PAIRS, max_molecules)
        pairs = changes_of_table(artifact, read, smiles, cells, np.array(held_out, dtype=bool), target, max_pairs, seed)
    result = measure_faithfulness(
        artifact,
        sample,  # pyright: ignore[reportArgumentType]
        target,
        true_contributions=true_contributions,
        methods=methods,
        max_edits=min(MAX_EDITS, max_molecules) if without_hydrogens else 0,
        pairs=pairs,
        max_stability=min(MAX_STABILITY, max_molecules) if without_hydrogens else 0,
        seed=seed,
        progress=progress,
    )
    record = write_faithfulness(run, model_folder(run), result, source.data, source.split, name)
    return RunFaithfulness(result, record, name, rejected, len(molecules))


def measure_quickly(
    artifact: Artifact, read: ReadMolecules, run: str | Path, max_molecules: int = 30
) -> RunFaithfulness:
    """Measure the default method and attention for the first target of a finished run in some seconds, and save it.

    Only deletion is measured. The test molecules are taken at random until there are `max_molecules`, or until they
    have `MAX_FRAGMENTS` fragments, if the default method predicts these.

    Args:
        artifact, read, run: as for `measure_run`.
        max_molecules: largest number of molecules.

    Raises:
        UsageError: there are no attributions for this model, or no test molecules.
        InputError: none of the molecules can be read.
        SmilesError: a prediction or an attribution is not finite.
    """
    run = Path(run)
    default = choose_attribution_method(artifact)
    source = molecules_of_run(run)
    order = np.random.default_rng(0).permutation(len(source.smiles)).tolist()
    molecules: list[Molecule] = []
    fragments = 0
    for i in order:
        (molecule,) = read([source.smiles[i]])
        if isinstance(molecule, SmilesError):
            continue
        fragments += count_fragments(molecule) if default == FRAGMENT_SHAPLEY else 0
        if len(molecules) == max_molecules or (molecules and fragments > MAX_FRAGMENTS):
            break
        molecules.append(molecule)
    if not molecules:
        raise InputError(f"none of the {len(source.smiles)} test molecules can be read")
    result = measure_faithfulness(
        artifact,
        molecules,  # pyright: ignore[reportArgumentType]
        artifact.targets[0],
        methods=list(dict.fromkeys((default, "attention"))),
    )
    record = write_faithfulness(run, model_folder(run), result, source.data, source.split, "")
    return RunFaithfulness(result, record, "", [], len(source.smiles))


def _target_column(artifact: Artifact, target: str | None) -> str:
    """The column of a table with the measured values of a target, or of the target whose class it names; or empty."""
    classes = artifact.task.distribution_columns(artifact.targets) if isinstance(artifact.task, Multiclass) else ()
    if target is not None and target in classes:
        return artifact.targets[target_index(artifact, target)]
    return artifact.targets[0] if target is None else target


def molecules_of_run(run: Path, target: str = "") -> EvaluationMolecules:
    """The test molecules of a run, with the measured values of a target of those and of the training molecules.

    Raises:
        UsageError: the folder has no predictions.csv.
    """
    path = run / "predictions.csv"
    if not path.is_file():
        raise UsageError(f"{run} has no predictions.csv, which lists the test molecules: pass a table of molecules")
    table = read_table(path)
    splits, smiles = column(table, "split"), column(table, "smiles")
    test = [s for s, split in zip(smiles, splits, strict=True) if split == "test"]
    measured = None
    if target in table.columns:
        rows = zip(smiles, column(table, target), splits, strict=True)
        labelled = [(s, cell, split == "test") for s, cell, split in rows if split in ("train", "test")]
        measured = tuple(map(list, zip(*labelled, strict=True))) if labelled else None
    return EvaluationMolecules(test, _dataset(run), "test", measured)  # pyright: ignore[reportArgumentType]


def molecules_of_table(
    path: str | Path,
    smiles_column: str = "",
    options: TableOptions = DEFAULT_TABLE_OPTIONS,
    max_atoms: int = 0,
    target: str = "",
) -> EvaluationMolecules:
    """The molecules of a table; a `MolattnWarning` reports what was detected or assumed in reading it.

    Args:
        path, options, max_atoms: as for `read_table`.
        smiles_column: found by its name when empty.
        target: the column of measured values, if the table has it; all molecules count as held out.
    """
    table = read_table(path, options, max_atoms=max_atoms)
    for message in table.warnings:
        warnings.warn(MolattnWarning(message), stacklevel=2)
    smiles = column(table, smiles_column or guess_smiles_column(table.columns, table.smiles_column))
    measured = (smiles, column(table, target), [True] * len(smiles)) if target in table.columns else None
    return EvaluationMolecules(smiles, Path(path).name, "", measured)


def ground_truth_property(run: Path, target: str) -> str:
    """The property that RDKit computed as the target of the run's data set, with atom contributions; empty if none."""
    name = _dataset(run)
    if name not in dataset_names():
        return ""
    card = load_card(name)
    return card.computed if target in card.target_columns else ""


def _dataset(run: Path) -> str:
    """The name of the data set or file of a run; without a configuration, the name of its folder."""
    if not (run / CONFIG_FILE).is_file():
        return run.name
    dataset = read_config(run / CONFIG_FILE).get("data", {}).get("dataset", "")
    if not isinstance(dataset, str):
        raise InputError(f"{run / CONFIG_FILE} has the data set {short_repr(dataset)}: it is damaged")
    return dataset if dataset in dataset_names() else Path(dataset).name
