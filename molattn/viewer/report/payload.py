"""The data of a report as JSON: molecules, targets, and sections."""

from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from molattn.chem import MAX_ATOMS
from molattn.data import ALL_SPLIT_LABELS
from molattn.viewer.report import error_sections, run_sections
from molattn.viewer.report.blocks import short_number
from molattn.viewer.report.errors_by_molecule import similar_pairs, training_similarity
from molattn.viewer.report.model_parts import HEADS, ModelParts
from molattn.viewer.report.run_files import RunFiles
from molattn.viewer.report.structures import Glyphs, canonical, compact_drawing, present_substructures, scaffolds
from molattn.viewer.report.target_values import TargetValues
from molattn.viewer.web.json_values import visible_text


def report_payload(
    run: RunFiles,
    parts: ModelParts | None = None,
    *,
    names: Sequence[str] = (),
    smarts: Mapping[str, str] | None = None,
    max_atoms: int = MAX_ATOMS,
    note: str = "",
) -> dict[str, Any]:
    """The data of the report of a run, ready for JSON.

    Args:
        run: n molecules, and the files of their run.
        parts: what its model adds; None for nothing.
        names: n names; empty for none.
        smarts: SMARTS by name that the molecules can be searched for, besides those of every report.
        max_atoms: largest number of atoms of a molecule.
        note: what the reader must know about the choice of molecules.

    Raises:
        SmilesError: a SMILES that cannot be read; raised for the first of them.
        UsageError: a SMARTS that cannot be read.
    """
    parts = parts or ModelParts()
    of_scaffold, unique = scaffolds(run.smiles, max_atoms), canonical(run.smiles, max_atoms)
    similarity = training_similarity(run.smiles, run.splits, max_atoms)
    rows, of = compared_rows(run.splits)
    sections = chain(
        run_sections.metrics(run),
        error_sections.worst(run, rows, of),
        error_sections.cliffs(run, similar_pairs(run.smiles, of_scaffold, unique, max_atoms)),
        error_sections.by_scaffold(run, of_scaffold, rows, of),
        error_sections.leakage(run, unique, of_scaffold, similarity, rows if of == "test" else rows[:0]),
        run_sections.learning(run),
        run_sections.heads(run, parts),
        run_sections.faithfulness(run),
        run_sections.curation(run),
        run_sections.settings(run),
    )
    return {
        "runs": [visible_text(run.name)],
        "folder": visible_text(run.folder),
        "note": visible_text(note),
        **molecules(run, names, smarts or {}, max_atoms, {i for found in parts.attributions.values() for i in found}),
        "similarity": numbers(similarity),
        "domain": list(parts.domain),
        "level": parts.level,
        "targets": [_target(target, parts) for target in run.targets],
        "missing": {k: [visible_text(m.why), visible_text(m.command)] for k, m in parts.missing.items() if k != HEADS},
        "sections": list(sections),
    }


def compared_rows(splits: Sequence[str]) -> tuple[np.ndarray, str]:
    """The indices of the molecules whose errors are compared, and what they are: the test molecules, or all."""
    test = np.flatnonzero(np.array(splits) == "test")
    return (test, "test") if len(test) else (np.arange(len(splits)), "")


def molecules(
    run: RunFiles,
    names: Sequence[str],
    smarts: Mapping[str, str],
    max_atoms: int,
    with_atoms: Collection[int] = (),
) -> dict[str, Any]:
    """The data of each molecule that do not depend on the target: its SMILES, drawing, split and substructures."""
    glyphs = Glyphs()
    drawings = [
        compact_drawing(smiles, glyphs, max_atoms, with_atoms=i in with_atoms) for i, smiles in enumerate(run.smiles)
    ]
    groups, found = present_substructures(run.smiles, smarts, max_atoms)
    splits = sorted(set(run.splits), key=[*ALL_SPLIT_LABELS, *sorted(set(run.splits))].index)
    return {
        "smiles": [visible_text(smiles) for smiles in run.smiles],
        "rows": run.rows.tolist(),
        "names": [visible_text(name) for name in names],
        "splits": [visible_text(split) for split in splits],
        "split": [splits.index(split) for split in run.splits],
        "drawings": drawings,
        "glyphs": glyphs.paths,
        "groups": [visible_text(group) for group in groups],
        "has": [np.flatnonzero(row).tolist() for row in found],
        "own": len(smarts),
    }


def target_values(target: TargetValues) -> dict[str, Any]:
    """The values of a target: those of the page's plot and table."""
    return {
        "name": visible_text(target.name),
        "unit": visible_text(target.unit),
        "kind": target.kind,
        "classes": [visible_text(name) for name in target.classes],
        "true": numbers(target.true),
        "predicted": numbers(target.predicted),
        "error": numbers(target.error),
        "probability": numbers(target.probability) if target.kind == "multiclass" else [],
        "std": [] if target.std is None else numbers(target.std),
        "bounds": [visible_text(bound) for bound in target.bounds],
    }


def _target(target: TargetValues, parts: ModelParts) -> dict[str, Any]:
    ends = parts.intervals.get(target.name)
    sets = parts.sets.get(target.name)
    attributions = parts.attributions.get(target.name, {})
    return {
        **target_values(target),
        "low": [] if ends is None else numbers(ends[:, 0]),
        "high": [] if ends is None else numbers(ends[:, 1]),
        "sets": [] if sets is None else ["" if s is None else visible_text(", ".join(s)) for s in sets],
        "atoms": {str(i): _attribution(a) for i, a in attributions.items()},
    }


def _attribution(attribution: Any) -> dict[str, Any]:
    return {
        "method": visible_text(attribution.method),
        "values": numbers(attribution.values),
        "labels": [visible_text(label) for label in attribution.labels],
        "signed": attribution.signed,
        "faithfulness": visible_text(attribution.faithfulness),
    }


def numbers(values: np.ndarray) -> list[float | None]:
    """(n,) numbers for JSON, see `short_number`."""
    return [short_number(v) for v in values.tolist()]
