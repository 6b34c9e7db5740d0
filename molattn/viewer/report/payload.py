"""The data of a report as JSON: molecules, targets, and sections."""

from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from molattn.chem import MAX_ATOMS
from molattn.data import ALL_SPLIT_LABELS
from molattn.viewer.report import error_sections, run_sections
from molattn.viewer.report.errors_by_molecule import similar_pairs, training_similarity
from molattn.viewer.report.model_parts import HEADS, ModelParts
from molattn.viewer.report.run_files import RunFiles
from molattn.viewer.report.structures import Glyphs, canonical, compact_drawing, present_substructures, scaffolds
from molattn.viewer.report.target_values import TargetValues
from molattn.viewer.web.json_values import json_number, visible_text


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
        run: the n molecules of a run, and its other files.
        parts: what the model of the run adds; None for nothing.
        names: n names of the molecules; empty for none.
        smarts: SMARTS by name that the molecules can be filtered by, in addition to `SUBSTRUCTURES`.
        max_atoms: largest number of atoms of a molecule.
        note: a sentence at the top, such as how the molecules were chosen; empty for none.

    Raises:
        SmilesError: the first SMILES that cannot be read.
        UsageError: a SMARTS that cannot be read.
    """
    parts = parts or ModelParts()
    scaffold_smiles, unique = scaffolds(run.smiles, max_atoms), canonical(run.smiles, max_atoms)
    similarity = training_similarity(run.smiles, run.splits, max_atoms)
    rows, counted = compared_rows(run.splits)
    test = np.flatnonzero(np.array(run.splits) == "test")
    sections = chain(
        run_sections.metrics(run),
        error_sections.worst(run, rows, counted),
        error_sections.cliffs(run, similar_pairs(run.smiles, scaffold_smiles, unique, max_atoms)),
        error_sections.by_scaffold(run, scaffold_smiles, rows, counted),
        error_sections.leakage(run, unique, scaffold_smiles, similarity, test),
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
    """The indices of the molecules whose errors are compared: the test molecules, or all if there are none.

    Returns:
        The indices, and what to call the molecules in a sentence: "test molecules" or "molecules".
    """
    test = np.flatnonzero(np.array(splits) == "test")
    return (test, "test molecules") if len(test) else (np.arange(len(splits)), "molecules")


def molecules(
    run: RunFiles,
    names: Sequence[str],
    smarts: Mapping[str, str],
    max_atoms: int,
    with_atoms: Collection[int] = (),
) -> dict[str, Any]:
    """The data of the molecules that are the same for all targets: SMILES, drawings, splits and substructures.

    Args:
        run, names, smarts, max_atoms: as for `report_payload`.
        with_atoms: indices of the molecules whose drawings have the positions of their atoms.
    """
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
    }


def target_values(target: TargetValues) -> dict[str, Any]:
    """The data of a target that the plot and the table of the page show."""
    return {
        "name": visible_text(target.title),
        "unit": visible_text(target.unit),
        "original": None if target.original is None else _original(target.original),
        "kind": target.kind,
        "classes": [visible_text(name) for name in target.classes],
        "true": numbers(target.true),
        "predicted": numbers(target.predicted),
        "error": numbers(target.error),
        "probability": numbers(target.probability) if target.kind == "multiclass" else [],
        "std": [] if target.std is None else numbers(target.std),
        "bounds": [visible_text(bound) for bound in target.bounds],
    }


def _original(target: TargetValues) -> dict[str, Any]:
    """The values of a target before its transform."""
    return {
        "unit": visible_text(target.unit),
        "true": numbers(target.true),
        "predicted": numbers(target.predicted),
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
        "quantity": visible_text(_quantity(attribution)),
        "faithfulness": visible_text(attribution.faithfulness),
    }


def _quantity(attribution: Any) -> str:
    """What the values raise or lower, with the part of the model and the unit."""
    name = attribution.quantity or "prediction"
    part = f" of {attribution.part}" if attribution.part else ""
    return f"{name}{part} ({attribution.unit})" if attribution.unit and not attribution.quantity else f"{name}{part}"


def numbers(values: np.ndarray) -> list[float | None]:
    """(n,) numbers for JSON, see `json_number`."""
    return [json_number(v) for v in values.tolist()]
