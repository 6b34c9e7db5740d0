"""The sections of a report on where a model errs: worst errors, activity cliffs, scaffolds, and leakage."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from molattn.data import describe_leakage, find_leakage
from molattn.viewer.report.blocks import Block, cards, molecule, paragraph, section, table
from molattn.viewer.report.errors_by_molecule import (
    SIMILAR,
    SimilarPair,
    activity_cliffs,
    errors_by_similarity,
    scaffold_errors,
    worst_errors,
)
from molattn.viewer.report.run_files import RunFiles
from molattn.viewer.report.target_values import TargetValues

NUM_WORST, MAX_SCAFFOLDS = 20, 40
MINUS = "\u2212"
"""As the page writes numbers."""


def worst(run: RunFiles, rows: np.ndarray, of: str) -> Iterator[Block]:
    """For each target its molecules with the largest errors among `rows`, which are the `of` molecules."""
    for t, target in enumerate(run.targets):
        found = worst_errors(target, rows, NUM_WORST)
        what = "the largest absolute errors" if target.kind == "regression" else "the least probability of their class"
        first = paragraph(f"The {len(found)} {of} molecules with {what}.")
        yield section("worst", "Worst errors", [first, cards(found.tolist())], t)


def cliffs(run: RunFiles, pairs: Sequence[SimilarPair]) -> Iterator[Block]:
    """For each target the pairs of similar molecules with the most different labels."""
    for t, target in enumerate(run.targets):
        found, count, limit = activity_cliffs(target, pairs)
        rule = f"by at least {limit:.3g}, the standard deviation" if target.kind == "regression" else "in class"
        of_them = "" if count <= len(found) else f"; these are the {len(found)} largest differences"
        text = (
            f"{len(pairs):,} pairs of molecules are similar: the Tanimoto similarity of their counted Morgan "
            f"fingerprints is at least {SIMILAR:g}, or they have one scaffold and differ in one substituent. The "
            f"labels of {count:,} of them differ {rule}{of_them}."
        )
        blocks = [paragraph(text)]
        if found:
            columns = (
                "first",
                "second",
                "change",
                "similarity",
                "true",
                "predicted",
                "true change",
                "predicted change",
            )
            blocks.append(table("Activity cliffs", columns, (_cliff(target, pair) for pair in found)))
        yield section("cliffs", "Activity cliffs", blocks, t)


def _cliff(target: TargetValues, pair: SimilarPair) -> list[Any]:
    a, b = pair.first, pair.second
    true, predicted = (" \u2192 ".join(show(target, v[i]) for i in (a, b)) for v in (target.true, target.predicted))
    changes: list[Any] = [None, None]
    if target.kind == "regression":
        changes = [float(v[b] - v[a]) for v in (target.true, target.predicted)]
    return [molecule(a), molecule(b), pair.change, pair.similarity, true, predicted, *changes]


def show(target: TargetValues, value: float) -> str:
    """A value as text: a number with four digits, or the name of a class where it is the index of one."""
    if not np.isfinite(value):
        return "none"
    whole = target.kind == "multiclass" or (target.kind == "binary" and value in (0.0, 1.0))
    return target.classes[int(value)] if whole else f"{value:.4g}".replace("-", MINUS)


def by_scaffold(run: RunFiles, scaffolds: Sequence[str], rows: np.ndarray, of: str) -> Iterator[Block]:
    """For each target the errors of `rows` by scaffold."""
    train = {s for s, split in zip(scaffolds, run.splits, strict=True) if split == "train"}
    for t, target in enumerate(run.targets):
        every = scaffold_errors(target, scaffolds, rows)
        found = [s for s in every if s.molecules > 1]
        columns = ["scaffold", "molecules", _error_name(target), "mean error", "in training", "worst"]
        cells = [
            [s.scaffold, s.molecules, s.mae, s.bias, "yes" if s.scaffold in train else "no", molecule(s.worst)]
            for s in found[:MAX_SCAFFOLDS]
        ]
        if target.kind != "regression":  # it has no sign
            columns.remove("mean error")
            cells = [[*row[:3], *row[4:]] for row in cells]
        more = f"; the {MAX_SCAFFOLDS} with most molecules are shown" if len(found) > MAX_SCAFFOLDS else ""
        text = f"{len(found):,} Bemis-Murcko scaffolds have several {of} molecules{more}."
        if single := [s.mae for s in every if s.molecules == 1]:
            text += f" {len(single):,} have one, with a {_error_name(target)} of {np.mean(single):.3g}."
        blocks = [paragraph(text), *([table("", columns, cells)] if cells else [])]
        yield section("scaffolds", "Errors by scaffold", blocks, t)


def _error_name(target: TargetValues) -> str:
    return "MAE" if target.kind == "regression" else "mean of 1 - p(true class)"


def leakage(
    run: RunFiles, canonical: Sequence[str], scaffolds: Sequence[str], similarity: np.ndarray, test: np.ndarray
) -> Iterator[Block]:
    """For each target, molecules and scaffolds on both sides of the split, and errors by similarity to the training."""
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
