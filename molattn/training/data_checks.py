"""Checks of the data of a run: duplicates, salts and mixtures, sizes, the range of labels, classes and splits."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from molattn.chem import MoleculeGraph, standardized_smiles
from molattn.chem.molecule import map_rows
from molattn.chem.parse import NO_ATOM_LIMIT
from molattn.data import ALL_SPLIT_LABELS, CALIBRATION, SPLIT_LABELS
from molattn.errors import SmilesError, short_repr
from molattn.models.names import LOG10, NEG_LOG10_MOLAR
from molattn.models.predictions import normal_quantile
from molattn.models.target_transform import parse_molar, transform_targets
from molattn.training.config import OFFICIAL_SPLIT
from molattn.training.data_messages import MAX_EXAMPLES, Finding, count_noun, join_words
from molattn.training.dataset import PreparedDataset
from molattn.training.duplicates import CONFLICT, find_conflicts, find_duplicates, label_spread
from molattn.training.skewed_targets import skewness

LARGE = 150
"""Molecules with more atoms than this are reported."""
MAX_STANDARDIZED = 2000
"""The maximum number of molecules that are standardized to count those that would change."""
MIN_LABELS = 50
"""Targets with fewer labels than this are reported."""
MIN_SHARE = 0.05
"""Classes with a smaller share of the labels than this are reported."""
MIN_ORDERS = 3.0
"""Positive, skewed targets whose central 98% spans this many orders of magnitude are better learned as logarithms."""
MAX_HALF_WIDTH = {"RMSE": 0.2, "AUROC": 0.1, "accuracy": 0.1}
"""Splits are reported if the half-width of the metric's 95% interval exceeds this: relative for the RMSE, for an AUROC
of 0.8, for an accuracy of 1/2."""

NORMAL_QUANTILE = normal_quantile(0.975)


def check_duplicates(dataset: PreparedDataset, keys: Sequence[str]) -> list[Finding]:
    """Molecules in several rows, and those whose labels are in conflict; `keys` are the canonical SMILES."""
    groups = find_duplicates(keys)
    if not len(groups):
        return []
    count = f"{count_noun(len(groups), 'molecule is', 'molecules are')} in several rows, {len(groups.order):,} in all"
    details: dict[str, Any] = {"molecules": len(groups), "rows": len(groups.order)}
    if dataset.offsets is not None:
        return [Finding("duplicates", f"{count}; they are on one side of the split", False, details)]
    names, targets = dataset.config.target_columns, dataset.targets
    transformed = transform_targets(dataset.transforms, targets)
    conflicts = find_conflicts(groups, transformed, dataset.task)
    details["conflicting"] = int(conflicts.any(1).sum())
    if not conflicts.any():
        differing = int((groups.highest(transformed) > groups.lowest(transformed)).any(1).sum())
        labels = f"; the labels of {differing:,} differ, by at most {100 * CONFLICT:g}% of a standard deviation"
        return [Finding("duplicates", f"{count}{labels if differing else ', with labels that agree'}", False, details)]
    spread = label_spread(transformed, dataset.task)
    difference = np.where(conflicts, groups.highest(transformed) - groups.lowest(transformed), -np.inf)
    worst = difference / np.where(spread > 0, spread, 1.0)
    examples = []
    for flat in np.argsort(-worst, axis=None, kind="stable")[: min(MAX_EXAMPLES, int(conflicts.sum()))]:
        group, t = np.unravel_index(int(flat), worst.shape)
        rows = [int(i) for i in groups.rows(int(group)) if np.isfinite(targets[i, t])]
        examples.append(
            {
                "molecule": keys[rows[0]],
                "target": names[int(t)],
                dataset.line_kind: [dataset.line(i) for i in rows],
                "values": [dataset.task.table_value(float(targets[i, t]), int(t)) for i in rows],
            }
        )
    details["examples"] = examples
    first = examples[0]
    values = [f"{v:g}" if isinstance(v, float) else v for v in first["values"]]
    which_target = f" of {short_repr(first['target'])}" if len(names) > 1 else ""
    limit = f" by over {100 * CONFLICT:g}% of a standard deviation" if spread.any() else ""
    place = f"{dataset.line_kind}s {join_words(first[dataset.line_kind])}"
    message = (
        f"{count}; the labels of {details['conflicting']:,} differ{limit}, most those of "
        f"{short_repr(first['molecule'])}, {place}: {join_words(values)}{which_target}"
    )
    return [Finding("duplicates", f"{message}; --duplicates mean, median or drop merges them", True, details)]


def check_fragments(dataset: PreparedDataset, keys: Sequence[str]) -> list[Finding]:
    """Molecules of several fragments; `keys` are the canonical SMILES."""
    several = [i for i, key in enumerate(keys) if "." in key]
    if not several or dataset.offsets is not None:
        return []
    first = several[0]
    details: dict[str, Any] = {"rows": len(several), "first": {dataset.line_kind: dataset.line(first)}}
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
        [keys[i] for i in indices],
        partial(standardized_smiles, standardize="parent", max_atoms=NO_ATOM_LIMIT),
        num_workers,
    )
    changed = [(i, f) for i, f in zip(indices, forms, strict=True) if isinstance(f, str) and f != keys[i]]
    checked = f"{len(keys):,} molecules" if len(indices) == len(keys) else f"a sample of {len(indices):,} molecules"
    details: dict[str, Any] = {"looked_at": len(indices), "changed": len(changed)}
    if not changed:
        return [Finding("standardize", f"--standardize parent would change none of {checked}", False, details)]
    first, form = changed[0]
    details["first"] = {dataset.line_kind: dataset.line(first), "smiles": keys[first], "parent": form}
    message = (
        f"--standardize parent would change {len(changed):,} of {checked}; the first, {dataset.location(first)}: "
        f"{short_repr(keys[first])} to {short_repr(form)}"
    )
    if len(indices) == len(keys):
        parents = dict(changed)
        details["become_duplicates"] = len(set(keys)) - len({parents.get(i, key) for i, key in enumerate(keys)})
        if details["become_duplicates"]:
            message = f"{message}; {details['become_duplicates']:,} fewer molecules would be different"
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


def check_ranges(dataset: PreparedDataset) -> list[Finding]:
    """Positive, skewed targets over several orders of magnitude."""
    found = []
    for t, (name, y) in enumerate(zip(dataset.config.target_columns, dataset.targets.T, strict=True)):
        labels = y[np.isfinite(y)]
        if len(labels) < 2 or labels.min() <= 0 or (dataset.transforms and dataset.transforms[t] is not None):
            continue
        low, high = np.quantile(labels, [0.01, 0.99])
        orders = float(np.log10(high) - np.log10(low))
        skew, skew_of_log = skewness(labels), skewness(np.log10(labels))
        if orders >= MIN_ORDERS and math.isfinite(skew) and skew > max(1.0, abs(skew_of_log)):
            transform = NEG_LOG10_MOLAR if parse_molar(dataset.units[t]) else LOG10
            message = (
                f"column {short_repr(name)} spans {orders:.1f} orders of magnitude, {labels.min():g} to "
                f"{labels.max():g}; the largest values decide the loss: try --target-transform {transform}"
            )
            found.append(Finding("range", message, True, {"target": name, "orders": orders, "skewness": skew}))
    return found


def check_classes(dataset: PreparedDataset) -> list[Finding]:
    """Classes with few of the labels of their target."""
    rare = []
    for t, (name, y) in enumerate(zip(dataset.config.target_columns, dataset.targets.T, strict=True)):
        labels = y[np.isfinite(y)].astype(int)
        names = dataset.task.class_names(t)
        for c, count in enumerate(np.bincount(labels, minlength=len(names)).tolist() if len(labels) else ()):
            if count < MIN_SHARE * len(labels):
                rare.append({"target": name, "class": names[c], "labels": count, "of": len(labels)})
    if not rare:
        return []
    first = min(rare, key=lambda r: r["labels"] / r["of"])
    rarest = "it" if len(rare) == 1 else "the rarest"
    message = (
        f"{count_noun(len(rare), 'class has', 'classes have')} under {100 * MIN_SHARE:g}% of the labels of the target; "
        f"{rarest}, {short_repr(first['class'])} of {short_repr(first['target'])}, has {first['labels']:,} of "
        f"{first['of']:,}: --class-balance gives the classes equal weight"
    )
    return [Finding("classes", message, True, {"rare": rare})]


def check_labels(dataset: PreparedDataset) -> list[Finding]:
    """Targets with few labels."""
    counts = np.isfinite(dataset.targets).sum(0)
    few = [(name, int(n)) for name, n in zip(dataset.config.target_columns, counts, strict=True) if n < MIN_LABELS]
    if not few:
        return []
    name, n = min(few, key=lambda item: item[1])
    fewest = "" if len(few) == 1 else ", the fewest"
    message = (
        f"{count_noun(len(few), 'target has', 'targets have')} under {MIN_LABELS} labels{fewest}: {short_repr(name)} "
        f"has {n}; a network learns little from so few"
    )
    return [Finding("labels", message, True, {"targets": dict(few)})]


def check_split_sizes(dataset: PreparedDataset) -> list[Finding]:
    """Rows without a split label; and, where whole scaffolds or groups were split, subsets that are far too large."""
    found, config = [], dataset.config
    labels = dataset.split_labels[dataset.rows]
    if missing := int((labels == "").sum()):
        are = "is" if missing == 1 else "are"
        message = f"{count_noun(missing, 'row has', 'rows have')} no split label and {are} not used"
        found.append(Finding("splits", message, True, {"rows": missing}))
    if config.split_column or config.splits_file or config.split == OFFICIAL_SPLIT:
        return found
    counts = {label: int((labels == label).sum()) for label in ALL_SPLIT_LABELS}
    shares = dict(zip(SPLIT_LABELS, config.split_sizes, strict=True)) | {CALIBRATION: config.calibration_size}
    shares["train"] -= config.calibration_size
    for label, share in shares.items():
        count = counts[label]
        exceeds_train = share < shares["train"] and count > counts["train"]
        if exceeds_train or (label == CALIBRATION and count > 2 * share * len(labels) + 1):
            wanted = f" ({100 * config.calibration_size:g}% were requested)" if label == CALIBRATION else ""
            message = (
                f"{count:,} of {len(labels):,} molecules are in the {label} split{wanted}, and {counts['train']:,} in "
                "the train split, since molecules of one scaffold or group stay together: choose another --split, or "
                "--seed"
            )
            found.append(Finding("splits", message, True, counts))
    return found


def check_splits(dataset: PreparedDataset) -> list[Finding]:
    """Test and validation splits that are too small for a meaningful metric."""
    found = []
    measure: Callable[[np.ndarray], tuple[str, float]] = {"regression": _rmse_width, "binary": _auroc_width}.get(
        dataset.task.kind, _accuracy_width
    )
    for split, label in (("test", "test"), ("val", "validation")):
        targets = dataset.targets[dataset.target_rows(dataset.indices(split))]
        labels_by_target = [y[np.isfinite(y)] for y in targets.T]
        measured = [
            (*measure(y), name, len(y)) for y, name in zip(labels_by_target, dataset.config.target_columns, strict=True)
        ]
        wide = [m for m in measured if not m[1] <= MAX_HALF_WIDTH[m[0]]]
        if not wide:
            continue
        metric, width, name, n = max(wide, key=lambda m: (math.isnan(m[1]), m[1]))
        what = f" of {short_repr(name)}" if len(labels_by_target) > 1 else ""
        labels = f"{count_noun(n, f'{label} label', f'{label} labels')}{what}"
        if math.isnan(width):
            message = f"{labels} do not have both classes, so that the {metric} is undefined"
        elif metric == "RMSE":
            message = f"{labels}: the 95% interval of the RMSE would be about +-{100 * width:.0f}% of it"
        else:
            value = "0.8" if metric == "AUROC" else "0.5"
            message = (
                f"{labels}: the 95% interval of an {metric} of {value} would be about {width:.2f} wide to either side"
            )
        details = {"split": split, "metric": metric, "targets": [m[2] for m in wide], "smallest": n}
        details["half_width"] = None if math.isnan(width) else width
        config = dataset.config
        fixed = config.split_column or config.splits_file or config.split in (OFFICIAL_SPLIT, "kennard-stone")
        could_have_folds = config.num_folds == 1 and not fixed
        advice = "; --num-folds 5 tests every molecule once" if split == "test" and could_have_folds else ""
        found.append(Finding("splits", f"{message}{advice}", True, details))
    return found


def _rmse_width(y: np.ndarray) -> tuple[str, float]:
    """The RMSE of n normal errors has the relative standard error 1 / sqrt(2 n)."""
    return "RMSE", NORMAL_QUANTILE / math.sqrt(2 * len(y)) if len(y) else math.nan


def _auroc_width(y: np.ndarray) -> tuple[str, float]:
    """The standard error of an AUROC A = 0.8 by Hanley and McNeil, Radiology 1982, 143, 29; NaN for one class.

    n+ n- SE^2 = A (1 - A) + (n+ - 1) (A / (2 - A) - A^2) + (n- - 1) (2 A^2 / (1 + A) - A^2)
    """
    positive = int(y.sum())
    negative = len(y) - positive
    if not positive or not negative:
        return "AUROC", math.nan
    a = 0.8
    more = (positive - 1) * (a / (2 - a) - a**2) + (negative - 1) * (2 * a**2 / (1 + a) - a**2)
    return "AUROC", NORMAL_QUANTILE * math.sqrt((a * (1 - a) + more) / (positive * negative))


def _accuracy_width(y: np.ndarray) -> tuple[str, float]:
    """The standard error of an accuracy of 1/2 is 1 / (2 sqrt(n))."""
    return "accuracy", NORMAL_QUANTILE / (2 * math.sqrt(len(y))) if len(y) else math.nan
