"""The matched pairs of a table of measured molecules, for what attributions predict of the measured changes."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from molattn.chem import MoleculeGraph, changed_atoms, matched_pairs
from molattn.errors import SmilesError
from molattn.explain.attribute import explained_output
from molattn.explain.measured_changes import Change
from molattn.models.artifact import Artifact
from molattn.models.base import Molecule
from molattn.models.tasks import Multiclass

MAX_MOLECULES = 5000
"""Largest number of molecules of a table among which pairs are searched."""

ReadMolecules = Callable[[Iterable[object]], Sequence[Molecule | SmilesError]]


def changes_of_table(
    artifact: Artifact,
    read: ReadMolecules,
    smiles: Sequence[str],
    cells: Sequence[str],
    held_out: np.ndarray,
    target: str | None,
    max_pairs: int,
    seed: int = 0,
) -> list[Change]:
    """Matched pairs with a measured change, of which at least one molecule was held out from the training.

    Args:
        artifact: the model.
        read: from SMILES to the molecules that the model reads.
        smiles: n molecules: those held out, and those of the training.
        cells: n cells of the column of the target; a cell that holds no value makes no pair.
        held_out: (n,) bools.
        target: see `explained_output`. Of several classes only the column of one has measured changes.
        max_pairs: largest number of pairs, sampled at random.
        seed: of the samples.
    """
    if isinstance(artifact.task, Multiclass) and target not in artifact.task.distribution_columns(artifact.targets):
        return []
    explained = explained_output(artifact, target, np.zeros(artifact.model.head.out_features))
    values = _values(artifact, cells, explained.target if explained.class_of is None else "", explained.class_of)
    rng = np.random.default_rng(seed)
    chosen = np.flatnonzero(np.isfinite(values))
    if len(chosen) > MAX_MOLECULES:  # those held out first
        order = rng.permutation(len(chosen))
        order = order[np.argsort(~held_out[chosen][order], kind="stable")]
        chosen = np.sort(chosen[order[:MAX_MOLECULES]])
    molecules = dict(zip(chosen.tolist(), read([smiles[i] for i in chosen.tolist()]), strict=True))
    rows = [i for i, m in molecules.items() if isinstance(m, MoleculeGraph)]
    encoded = [molecules[i].encoded_smiles for i in rows]  # pyright: ignore[reportAttributeAccessIssue]
    pairs = [p for p in matched_pairs(encoded) if held_out[rows[p.first]] or held_out[rows[p.second]]]
    if len(pairs) > max_pairs:
        pairs = [pairs[k] for k in np.sort(rng.choice(len(pairs), max_pairs, replace=False))]
    changes = []
    atoms = changed_atoms(encoded, pairs, max_atoms=artifact.read_options.max_atoms)
    for pair, (removed, added) in zip(pairs, atoms, strict=True):
        i, j = rows[pair.first], rows[pair.second]
        first, second = molecules[i], molecules[j]
        assert isinstance(first, MoleculeGraph) and isinstance(second, MoleculeGraph)
        change = float(values[j] - values[i])
        changes.append(Change(first, second, removed, added, explained.output, change, (i, j)))
    return changes


def _values(artifact: Artifact, cells: Sequence[str], target: str, class_of: tuple[int, int] | None) -> np.ndarray:
    """The measured values of the explained output, (n,): in its unit, or 1 for its class and 0 for others."""
    if class_of is None:
        t = artifact.targets.index(target)
        table = np.full((len(cells), len(artifact.targets)), np.nan)
        table[:, t] = [_number(cell) for cell in cells]
        with np.errstate(all="ignore"):
            return artifact.scaler.transform(table)[:, t]
    t, c = class_of
    names = artifact.task.class_names(t)
    binary = len(names) == 2
    numbers = {0.0: names[0], 1.0: names[1]} if binary else {}
    labels = [cell if cell in names else numbers.get(_number(cell), "") for cell in cells]
    return np.array([np.nan if not label else float(label == names[c]) for label in labels])


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return float("nan")
