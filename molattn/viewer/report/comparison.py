"""The report of two runs: which molecules they have in common, and how their errors and settings differ."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from molattn.chem import MAX_ATOMS
from molattn.errors import InputError
from molattn.viewer.report.blocks import Block, Cell, curve, molecule, paragraph, section, table
from molattn.viewer.report.error_sections import NUM_WORST, label_text, prediction_text
from molattn.viewer.report.payload import molecules, numbers, target_values
from molattn.viewer.report.run_files import RunFiles
from molattn.viewer.report.run_sections import NOT_METRICS, format_interval, metric_label
from molattn.viewer.report.structures import canonical
from molattn.viewer.report.target_values import TargetValues
from molattn.viewer.web.json_values import visible_text

NUM_RESAMPLES = 1000
"""The number of bootstrap samples of `paired_interval`."""


def align(a: RunFiles, b: RunFiles, max_atoms: int = MAX_ATOMS) -> tuple[RunFiles, RunFiles]:
    """Two runs with only the molecules and targets that they have in common, in the order of the first run.

    The targets of both have the transforms of the first run, so that their errors can be compared.

    If the rows that both have contain the same molecules, runs are aligned by row. Otherwise their tables differ, and
    they are aligned by canonical SMILES; of several rows of a molecule, the first is used.

    Raises:
        InputError: they have no molecule in common, or no target of the same name, kind and classes.
    """
    kinds = {target.name: (target.kind, target.classes) for target in b.targets}
    names = [t.name for t in a.targets if kinds.get(t.name) == (t.kind, t.classes)]
    if not names:
        raise InputError(f"{a.folder} and {b.folder} have no target in common that is of the same kind")
    smiles_by_row = [dict(zip(run.rows.tolist(), run.smiles, strict=True)) for run in (a, b)]
    common_rows = smiles_by_row[0].keys() & smiles_by_row[1].keys()
    if common_rows and all(smiles_by_row[0][row] == smiles_by_row[1][row] for row in common_rows):
        keys_of_a, keys_of_b = a.rows.tolist(), b.rows.tolist()
    else:
        keys_of_a, keys_of_b = canonical(a.smiles, max_atoms), canonical(b.smiles, max_atoms)
    index_in_a, index_in_b = _first_indices(keys_of_a), _first_indices(keys_of_b)
    common = [key for key in index_in_a if key in index_in_b]
    if not common:
        raise InputError(f"{a.folder} and {b.folder} have no molecule in common")
    first, second = (
        _select(a, [index_in_a[key] for key in common], names),
        _select(b, [index_in_b[key] for key in common], names),
    )
    pairs = zip(first.targets, second.targets, strict=True)
    return first, replace(second, targets=tuple(y.transformed(x.transform) for x, y in pairs))


def _first_indices(keys: Sequence[int | str]) -> dict[int | str, int]:
    """The index of each key where it occurs first, in that order."""
    indices: dict[int | str, int] = {}
    for i, key in enumerate(keys):
        indices.setdefault(key, i)
    return indices


def _select(run: RunFiles, indices: Sequence[int], names: Sequence[str]) -> RunFiles:
    """A run with only some of its molecules and targets."""
    selected = run.select(np.array(indices))
    by_name = {target.name: target for target in selected.targets}
    return replace(selected, targets=tuple(by_name[name] for name in names))


def comparison_payload(
    a: RunFiles,
    b: RunFiles,
    *,
    names: Sequence[str] = (),
    smarts: Mapping[str, str] | None = None,
    max_atoms: int = MAX_ATOMS,
    note: str = "",
) -> dict[str, Any]:
    """The data of the report of two runs, ready for JSON; the labels are those of the first run.

    Args:
        a, b: two runs of the same n molecules and targets: see `align`.
        names, smarts, max_atoms, note: as for `report_payload`.
    """
    runs = (a.name, b.name) if a.name != b.name else (str(a.folder), str(b.folder))
    splits = [x if x == y else f"{x} / {y}" for x, y in zip(a.splits, b.splits, strict=True)]
    shown = replace(a, splits=splits)
    rows = np.flatnonzero(np.array(splits) == "test")
    sections = chain(
        _metrics(a, b, runs),
        _paired(a, b, runs, rows),
        _most_different(a, b, runs, rows if len(rows) else np.arange(len(splits))),
        _learning(a, b, runs),
        _splits(a, b, runs),
        _settings(a, b, runs),
    )
    second = [
        {
            "predicted": numbers(t.predicted),
            "error": numbers(_second_errors(s, t)),
            "original": None if t.original is None else numbers(t.original.predicted),
        }
        for s, t in zip(a.targets, b.targets, strict=True)
    ]
    return {
        "runs": [visible_text(name) for name in runs],
        "folder": visible_text(a.folder),
        "note": visible_text(note),
        **molecules(shown, names, smarts or {}, max_atoms),
        "similarity": [],
        "domain": [],
        "level": 0.9,
        "targets": [
            {**target_values(t), "low": [], "high": [], "sets": [], "second": s}
            for t, s in zip(a.targets, second, strict=True)
        ],
        "missing": {},
        "sections": list(sections),
    }


def _second_errors(first: TargetValues, second: TargetValues) -> np.ndarray:
    """(n,) the errors of the second run: for regression with the labels of the first run, for classes with its own."""
    return second.predicted - first.true if second.kind == "regression" else second.error


def _metrics(a: RunFiles, b: RunFiles, runs: Sequence[str]) -> Iterator[Block]:
    for t, target in enumerate(a.targets):
        scores = [run.metrics.get("test", {}).get(target.name, {}) for run in (a, b)]
        ends = [run.metrics.get("test_intervals", {}).get(target.name, {}) for run in (a, b)]
        names = [name for name in dict.fromkeys(chain(*scores)) if name not in NOT_METRICS]
        rows: list[list[Cell]] = []
        for name in names:
            cells = ((s.get(name), format_interval(e.get(name))) for s, e in zip(scores, ends, strict=True))
            rows.append([metric_label(name), *chain(*cells)])
        rows.append(["molecules", *chain(*([s.get("n"), ""] for s in scores))])
        columns = ["", runs[0], "95% interval", runs[1], "95% interval"]
        text = "The metrics of each run are those of its own test molecules."
        unit = target.unit if target.original is None else target.original.unit
        text += f" RMSE and MAE are in {unit}." if unit and target.kind == "regression" else ""
        yield section("metrics", "Metrics", [table(f"{target.name}, test", columns, rows), paragraph(text)], t)


def _paired(a: RunFiles, b: RunFiles, runs: Sequence[str], rows: np.ndarray) -> Iterator[Block]:
    """For each target the errors of both runs on `rows`, the molecules that are test molecules of both."""
    for t, (x, y) in enumerate(zip(a.targets, b.targets, strict=True)):
        errors = [np.abs(e[rows]) for e in (x.error, _second_errors(x, y))]
        known = np.isfinite(errors[0]) & np.isfinite(errors[1])
        p, q = (e[known] for e in errors)
        title = "The same test molecules"
        if not len(p):
            yield section("paired", title, [paragraph("The runs have no test molecule with a label in common.")], t)
            continue
        low, high = paired_interval(q - p)
        what = "mean absolute error" if x.kind == "regression" else "mean of 1 - p(true class)"
        better = float((q < p).mean())
        text = (
            f"{len(p):,} test molecules of both runs: the {what}{x.in_unit} is {p.mean():.4g} in {runs[0]} and "
            f"{q.mean():.4g} in {runs[1]}. The difference is {(q - p).mean():+.3g}, with a 95% interval {low:+.3g} to "
            f"{high:+.3g}, by {NUM_RESAMPLES:,} resamples of the molecules. {runs[1]} has the smaller error on "
            f"{better:.0%} of them."
        )
        yield section("paired", title, [paragraph(text)], t)


def paired_interval(differences: np.ndarray, seed: int = 0) -> tuple[float, float]:
    """The ends of the 95% percentile bootstrap interval of the mean of paired differences, (n,)."""
    rng = np.random.default_rng(seed)
    means = [rng.choice(differences, len(differences)).mean() for _ in range(NUM_RESAMPLES)]
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


def _most_different(a: RunFiles, b: RunFiles, runs: Sequence[str], rows: np.ndarray) -> Iterator[Block]:
    for t, (x, y) in enumerate(zip(a.targets, b.targets, strict=True)):
        p, q = (z.predicted if z.kind == "regression" or z.kind == "binary" else z.error for z in (x, y))
        difference = np.abs(q - p)[rows]
        order = rows[np.argsort(-np.where(np.isfinite(difference), difference, -1), kind="stable")][:NUM_WORST]
        cells = [
            [molecule(i), label_text(x, float(x.true[i])), _prediction(x, i), _prediction(y, i), float(q[i] - p[i])]
            for i in order.tolist()
            if np.isfinite(q[i] - p[i])
        ]
        columns = ("molecule", "true", *runs, "difference")
        yield section("differ", "Where the runs differ most", [table("", columns, cells)], t)


def _prediction(target: TargetValues, i: int) -> Cell:
    """The prediction of molecule i as a cell: a number, a probability, or the name of a class."""
    value = float(target.predicted[i])
    return prediction_text(target, value) if target.kind == "multiclass" else value


def _learning(a: RunFiles, b: RunFiles, runs: Sequence[str]) -> Iterator[Block]:
    lines = {
        name: (run.history["epoch"], run.history["val_loss"])
        for name, run in zip(runs, (a, b), strict=True)
        if {"epoch", "val_loss"} <= run.history.keys() and "member" not in run.history
    }
    if lines:
        yield section("learning", "Validation loss", [curve("epoch", "validation loss", lines, None)])


def _splits(a: RunFiles, b: RunFiles, runs: Sequence[str]) -> Iterator[Block]:
    pairs = list(zip(a.splits, b.splits, strict=True))
    if all(x == y for x, y in pairs):
        texts = [f"The {len(pairs):,} molecules that the runs have in common are split in the same way."]
    else:
        texts = [f"The {len(pairs):,} molecules that the runs have in common are split differently."]
        for k, name in enumerate(runs):
            count = sum(pair[k] == "train" and pair[1 - k] == "test" for pair in pairs)
            texts.append(f"{count:,} test molecules of the other run are training molecules of {name}.")
    yield section("splits", "Split", map(paragraph, texts))


def _settings(a: RunFiles, b: RunFiles, runs: Sequence[str]) -> Iterator[Block]:
    x, y = _flatten(a.config), _flatten(b.config)
    rows = [[name, x.get(name, ""), y.get(name, "")] for name in dict.fromkeys((*x, *y)) if x.get(name) != y.get(name)]
    blocks = [table("", ("setting", *runs), rows)] if rows else [paragraph("All settings are the same.")]
    yield section("settings", "Settings that differ", blocks)


def _flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested settings by their dotted names, as JSON."""
    found: dict[str, str] = {}
    for name, value in values.items():
        found |= (
            _flatten(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": json.dumps(value)}
        )
    return found
