"""The sections of a report about errors: the worst ones, activity cliffs, errors by scaffold, and leakage."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from molattn.data import describe_leakage, find_leakage
from molattn.viewer.report.blocks import Block, cards, molecule, paragraph, section, table
from molattn.viewer.report.errors_by_molecule import (
    MIN_SIMILARITY,
    SimilarPair,
    activity_cliffs,
    errors_by_similarity,
    scaffold_errors,
    worst_errors,
)
from molattn.viewer.report.run_files import RunFiles
from molattn.viewer.report.target_values import TargetValues

NUM_WORST, MAX_SCAFFOLDS = 20, 40
"""The largest numbers of molecules and scaffolds that a section lists."""

MINUS = "\u2212"
"""The minus sign, which report.js writes, too."""


def worst(run: RunFiles, rows: np.ndarray, counted: str) -> Iterator[Block]:
    """For each target the molecules with the largest errors among `rows`; see `compared_rows` for `rows, counted`."""
    for t, target in enumerate(run.targets):
        found = worst_errors(target, rows, NUM_WORST)
        what = "the largest absolute errors" if target.kind == "regression" else "the least probability of their class"
        first = paragraph(f"The {len(found)} {counted} with {what}{target.in_unit}.")
        yield section("worst", "Worst errors", [first, cards(found.tolist())], t)


def cliffs(run: RunFiles, pairs: Sequence[SimilarPair]) -> Iterator[Block]:
    """For each target the activity cliffs: pairs of similar molecules with the most different labels."""
    for t, target in enumerate(run.targets):
        found, count, limit = activity_cliffs(target, pairs)
        least = f"by at least {limit:.3g}, the standard deviation{target.in_unit}"
        rule = least if target.kind == "regression" else "in class"
        order = "the largest differences" if target.kind == "regression" else "the largest errors"
        listed = "" if count <= len(found) else f"; listed are the {len(found)} with {order}"
        text = (
            f"{len(pairs):,} pairs of molecules are similar: the Tanimoto similarity of their Morgan count "
            f"fingerprints is at least {MIN_SIMILARITY:g}, or they differ in one substituent and have one "
            f"scaffold. The labels of {count:,} of them differ {rule}{listed}."
        )
        blocks = [paragraph(text)]
        if found:
            columns = ["first", "second", "change", "similarity", "true", "predicted"]
            if target.kind == "regression":
                columns += ["true change", "predicted change"]
            blocks.append(table("Activity cliffs", columns, (_cliff(target, pair) for pair in found)))
        yield section("cliffs", "Activity cliffs", blocks, t)


def _cliff(target: TargetValues, pair: SimilarPair) -> list[Any]:
    a, b = pair.first, pair.second
    true = " \u2192 ".join(label_text(target, target.true[i]) for i in (a, b))
    predicted = " \u2192 ".join(prediction_text(target, target.predicted[i]) for i in (a, b))
    changes: list[float] = []
    if target.kind == "regression":
        changes = [float(v[b] - v[a]) for v in (target.true, target.predicted)]
    return [molecule(a), molecule(b), pair.change, pair.similarity, true, predicted, *changes]


def label_text(target: TargetValues, value: float) -> str:
    """A label as text: a number with four significant digits, or the name of a class; "none" for NaN."""
    return _number_text(value) if target.kind == "regression" else _class_name(target, value)


def prediction_text(target: TargetValues, value: float) -> str:
    """A prediction as text: a number or a probability with four significant digits, or the name of a class."""
    return _class_name(target, value) if target.kind == "multiclass" else _number_text(value)


def _number_text(value: float) -> str:
    return f"{value:.4g}".replace("-", MINUS) if np.isfinite(value) else "none"


def _class_name(target: TargetValues, index: float) -> str:
    return target.classes[int(index)] if np.isfinite(index) else "none"


def by_scaffold(run: RunFiles, scaffolds: Sequence[str], rows: np.ndarray, counted: str) -> Iterator[Block]:
    """For each target the errors by scaffold of the molecules `rows`; see `compared_rows` for `rows, counted`."""
    train = {s for s, split in zip(scaffolds, run.splits, strict=True) if split == "train"}
    for t, target in enumerate(run.targets):
        every = scaffold_errors(target, scaffolds, rows)
        found = [s for s in every if s.molecules > 1]
        columns = ["scaffold", "molecules", _error_name(target), "mean error", "in training", "worst"]
        cells = [
            [s.scaffold, s.molecules, s.mae, s.bias, "yes" if s.scaffold in train else "no", molecule(s.worst)]
            for s in found[:MAX_SCAFFOLDS]
        ]
        if target.kind != "regression":  # 1 - p has no sign
            columns.remove("mean error")
            cells = [[*row[:3], *row[4:]] for row in cells]
        more = f"; the {MAX_SCAFFOLDS} with the most molecules are shown" if len(found) > MAX_SCAFFOLDS else ""
        text = f"{len(found):,} Bemis-Murcko scaffolds have several {counted}{more}."
        if single := [s.mae for s in every if s.molecules == 1]:
            text += f" {len(single):,} have one, with a {_error_name(target)} of {np.mean(single):.3g}."
        blocks = [paragraph(text), *([table("", columns, cells)] if cells else [])]
        yield section("scaffolds", "Errors by scaffold", blocks, t)


def _error_name(target: TargetValues) -> str:
    return f"MAE{target.in_unit}" if target.kind == "regression" else "mean of 1 - p(true class)"


def leakage(
    run: RunFiles, canonical: Sequence[str], scaffolds: Sequence[str], similarity: np.ndarray, test: np.ndarray
) -> Iterator[Block]:
    """For each target the leakage between the subsets of the split, and test errors by similarity to the training set.

    Args:
        run: n molecules.
        canonical, scaffolds: their n canonical SMILES and scaffolds.
        similarity: (n,) from `training_similarity`.
        test: indices of the test molecules.
    """
    sentence = describe_leakage(find_leakage(canonical, run.splits))
    blocks = [paragraph(f"{sentence[0].upper()}{sentence[1:]}.")]
    train = {s for s, split in zip(scaffolds, run.splits, strict=True) if split == "train"}
    of_test = [scaffolds[i] for i in test.tolist() if scaffolds[i]]
    if of_test:
        shared = sum(s in train for s in of_test)
        blocks.append(
            paragraph(f"{shared} of {len(of_test)} test molecules have a scaffold of the training molecules.")
        )
    for t, target in enumerate(run.targets):
        found = errors_by_similarity(target, similarity, test)
        rows = [[f"{low:g} to {high:g}", count, mae] for low, high, count, mae in found]
        caption = "Test errors by Tanimoto similarity to the most similar training molecule"
        columns = ("similarity", "molecules", _error_name(target))
        yield section("leakage", "Split and leakage", [*blocks, *([table(caption, columns, rows)] if rows else [])], t)
