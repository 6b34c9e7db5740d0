"""Checks of the molecules of a run: replicates, salts and mixtures, and sizes."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from molattn.chem import MoleculeGraph, standardized_smiles
from molattn.chem.molecule import map_rows
from molattn.errors import SmilesError, short_repr
from molattn.models.target_transform import transform_targets
from molattn.training.dataset import PreparedDataset
from molattn.training.findings import MAX_EXAMPLES, Finding, count_noun, list_words
from molattn.training.labels import NO_ATOM_LIMIT
from molattn.training.replicates import CONFLICT, find_conflicts, find_replicates, label_spread

LARGE = 150
"""Molecules with more atoms than this are reported."""
MAX_STANDARDIZED = 2000
"""The maximum number of molecules that are standardised to count those that would change."""


def check_replicates(dataset: PreparedDataset, keys: Sequence[str]) -> list[Finding]:
    """Molecules in several rows, and those whose labels are in conflict; `keys` are the canonical SMILES."""
    groups = find_replicates(keys)
    if not len(groups):
        return []
    count = f"{count_noun(len(groups), 'molecule is', 'molecules are')} in several rows, {len(groups.order):,} in all"
    details: dict[str, Any] = {"molecules": len(groups), "rows": len(groups.order)}
    if dataset.offsets is not None:
        return [Finding("replicates", f"{count}; they are on one side of the split", False, details)]
    names, targets = dataset.config.target_columns, dataset.targets
    learned = transform_targets(dataset.transforms, targets)
    conflicts = find_conflicts(groups, learned, dataset.task)
    details["conflicting"] = int(conflicts.any(1).sum())
    if not conflicts.any():
        return [Finding("replicates", f"{count}, with labels that agree", False, details)]
    spread = label_spread(learned, dataset.task)
    difference = np.where(conflicts, groups.highest(learned) - groups.lowest(learned), -np.inf)
    worst = difference / np.where(spread > 0, spread, 1.0)
    examples = []
    for flat in np.argsort(-worst, axis=None, kind="stable")[: min(MAX_EXAMPLES, int(conflicts.sum()))]:
        group, t = np.unravel_index(int(flat), worst.shape)
        rows = [int(i) for i in groups.rows(int(group)) if np.isfinite(targets[i, t])]
        examples.append(
            {
                "molecule": keys[rows[0]],
                "target": names[int(t)],
                dataset.line_unit: [dataset.line(i) for i in rows],
                "values": [dataset.task.table_value(float(targets[i, t]), int(t)) for i in rows],
            }
        )
    details["examples"] = examples
    first = examples[0]
    values = [f"{v:g}" if isinstance(v, float) else v for v in first["values"]]
    of_target = f" of {short_repr(first['target'])}" if len(names) > 1 else ""
    limit = f" by over {100 * CONFLICT:g}% of a standard deviation" if spread.any() else ""
    place = f"{dataset.line_unit}s {list_words(first[dataset.line_unit])}"
    message = (
        f"{count}; the labels of {details['conflicting']:,} differ{limit}, most those of "
        f"{short_repr(first['molecule'])}, {place}: {list_words(values)}{of_target}"
    )
    return [Finding("replicates", f"{message}; --replicates mean, median or drop merges them", True, details)]


def check_fragments(dataset: PreparedDataset, keys: Sequence[str]) -> list[Finding]:
    """Molecules of several fragments; `keys` are the canonical SMILES."""
    several = [i for i, key in enumerate(keys) if "." in key]
    if not several or dataset.offsets is not None:
        return []
    first = several[0]
    details: dict[str, Any] = {"rows": len(several), "first": {dataset.line_unit: dataset.line(first)}}
    message = f"{count_noun(len(several), 'row is', 'rows are')} of several fragments, such as salts and mixtures"
    place = f"the first, {dataset.location(first)}: {short_repr(keys[first])}"
    if dataset.config.standardize:
        return [Finding("fragments", f"{message}, also in their standard form; {place}", True, details)]
    try:
        parent = standardized_smiles(keys[first], "parent", NO_ATOM_LIMIT)
    except SmilesError as error:
        parent = None
        details["first"]["error"] = error.reason
    details["first"] |= {"smiles": keys[first], "parent": parent}
    as_parent = f", whose parent is {short_repr(parent)}" if parent else ""
    return [Finding("fragments", f"{message}; {place}{as_parent}; --standardize parent reads that", True, details)]


def check_standardized(dataset: PreparedDataset, keys: Sequence[str], num_workers: int) -> list[Finding]:
    """What `--standardize parent` would change, from all molecules or a random sample of them."""
    if dataset.offsets is not None or not len(keys):
        return []
    indices = list(range(len(keys)))
    if len(keys) > MAX_STANDARDIZED:
        indices = sorted(np.random.default_rng(0).choice(len(keys), MAX_STANDARDIZED, replace=False).tolist())
    forms = map_rows(
        [keys[i] for i in indices], partial(standardized_smiles, how="parent", max_atoms=NO_ATOM_LIMIT), num_workers
    )
    changed = [(i, f) for i, f in zip(indices, forms, strict=True) if isinstance(f, str) and f != keys[i]]
    of = f"{len(keys):,} molecules" if len(indices) == len(keys) else f"a sample of {len(indices):,} molecules"
    details: dict[str, Any] = {"looked_at": len(indices), "changed": len(changed)}
    if not changed:
        return [Finding("standardize", f"--standardize parent would change none of {of}", False, details)]
    first, form = changed[0]
    details["first"] = {dataset.line_unit: dataset.line(first), "smiles": keys[first], "parent": form}
    message = (
        f"--standardize parent would change {len(changed):,} of {of}; the first, {dataset.location(first)}: "
        f"{short_repr(keys[first])} to {short_repr(form)}"
    )
    if len(indices) == len(keys):
        parents = dict(changed)
        details["become_replicates"] = len(set(keys)) - len({parents.get(i, key) for i, key in enumerate(keys)})
        if details["become_replicates"]:
            message = f"{message}; {details['become_replicates']:,} fewer molecules would be different"
    return [Finding("standardize", message, False, details)]


def check_sizes(dataset: PreparedDataset) -> list[Finding]:
    """Very large molecules, and single atoms; nothing for models of tokens."""
    molecules = dataset.molecules
    if not len(molecules) or not isinstance(molecules[0], MoleculeGraph):
        return []
    sizes, found = molecules.sizes, []
    if len(large := np.flatnonzero(sizes > LARGE)):
        largest = int(sizes.argmax())
        message = (
            f"{count_noun(len(large), 'molecule has', 'molecules have')} over {LARGE} atoms, the largest, "
            f"{dataset.location(largest)}, {sizes[largest]:,}: time and memory grow with the square"
        )
        found.append(Finding("size", message, True, {"over": LARGE, "rows": len(large), "largest": int(sizes.max())}))
    if len(single := np.flatnonzero(sizes == 1)):
        first = int(single[0])
        message = (
            f"{count_noun(len(single), 'molecule is', 'molecules are')} a single atom; the first, "
            f"{dataset.location(first)}: {short_repr(molecules[[first]].smiles[0])}"
        )
        found.append(Finding("size", message, len(single) > len(sizes) // 20, {"atoms": 1, "rows": len(single)}))
    return found
