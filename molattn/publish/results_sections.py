"""Sections of a model card: targets, data, split, metrics, uncertainty and faithfulness."""

from collections.abc import Mapping, Sequence
from typing import Any

from molattn.data.tables.units import name_has_unit
from molattn.publish.markdown import code, escaped, number, table
from molattn.publish.run_files import RunFiles
from molattn.training.metrics import INTERVAL, METRICS

MAX_TARGETS = 50
"""Maximum number of targets that a card lists."""

SUBSET_NAMES = {"train": "training", "val": "validation", "test": "test", "cal": "calibration"}


def targets_section(run_files: RunFiles) -> list[str]:
    """The targets: names, units or classes, and statistics of the training labels."""
    task, targets = run_files.config["task"], run_files.config["targets"]
    classes = task.get("classes") or [()] * len(targets)
    if task["kind"] == "regression":
        header = ["target", "unit", "mean in training", "standard deviation", "transform"]
        rows = [
            [code(t["name"]), escaped(t["unit"]) or "unknown", number(t["mean"]), number(t["std"]), _transform(t)]
            for t in targets
        ]
        if not any("transform" in t for t in targets):
            header, rows = header[:-1], [row[:-1] for row in rows]
    else:
        header = ["target", "classes", "frequencies in training"]
        rows = [
            [code(t["name"]), ", ".join(map(code, names or ("0", "1"))), _class_frequencies(t)]
            for t, names in zip(targets, classes, strict=True)
        ]
    level = "each atom" if task["atom_level"] else "a molecule"
    what = {"regression": "Numbers", "binary": "The probability of the second class", "multiclass": "Classes"}
    lines = [f"{what.get(task['kind'], 'Values')} for {level}.", "", *table(header, rows[:MAX_TARGETS])]
    if "transform" in header:
        lines += ["", "The mean and the standard deviation of a target with a transform are those of its transform."]
    return [*lines, *_more(len(rows))]


def _transform(target: Mapping[str, Any]) -> str:
    return code(target["transform"]["name"]) if "transform" in target else "none"


def _class_frequencies(target: Mapping[str, Any]) -> str:
    return ", ".join(map(number, target["class_priors"])) if "class_priors" in target else "not recorded"


def _more(count: int) -> list[str]:
    return ["", f"And {count - MAX_TARGETS} more, in `config.json`."] if count > MAX_TARGETS else []


def data_section(run_files: RunFiles) -> list[str]:
    """The table, its checksum, and how many of its rows were used."""
    if not run_files.data_name:
        return ["Not recorded: this model was saved without its run."]
    card, report = run_files.dataset_card, run_files.report
    name = code(run_files.data_name)
    lines = [f"- Table: {name}" + (f", {escaped(card.title)}" if card is not None else "")]
    if sha256 := run_files.environment.get("data_sha256"):
        lines.append(f"- SHA-256 of the table: `{sha256}`")
    if report:
        counts = [f"{report['rows']:,} rows", f"{report['used']:,} used"]
        counts += [f"{report[k]:,} {k}" for k in ("rejected", "merged") if report.get(k)]
        lines.append(f"- Rows: {', '.join(counts)}")
    if card is not None:
        lines += [f"- Source: {escaped(card.source)}", f"- Licence of the data: {escaped(card.licence)}"]
        lines += [f"- Citation: {escaped(text)}" for text in card.citation]
    return [*lines, "", "The table itself, and predictions of its molecules, are not in this repository."]


def split_section(run_files: RunFiles) -> list[str]:
    """The method of the split, and the number of rows in each subset."""
    data = run_files.settings.get("data", {})
    if not data:
        return ["Not recorded."]
    if data.get("splits_file"):
        how = f"a file, {code(data['splits_file'].replace(chr(92), '/').rpartition('/')[2])}"
    elif data.get("split_column"):
        how = f"the column {code(data['split_column'])}"
    else:
        sizes = " / ".join(f"{size:g}" for size in data["split_sizes"])
        how = f"{code(data['split'])}, {sizes}, seed {run_files.settings['training']['seed']}"
    if data.get("group_column"):
        how += f", in groups of the column {code(data['group_column'])}"
    if data.get("fold", -1) >= 0:
        how += f", fold {data['fold']} of {data['num_folds']}"
    lines = [f"By {how}."]
    if counts := run_files.report.get("split"):
        lines += ["", *table(list(map(SUBSET_NAMES.__getitem__, counts)), [[f"{n:,}" for n in counts.values()]])]
    return lines


def metrics_section(run_files: RunFiles) -> list[str]:
    """Validation and test metrics, with intervals of the test metrics."""
    metrics = run_files.metrics
    if not metrics:
        return ["Not measured: `molattn evaluate` measures them on a table with labels."]
    baseline = metrics.get("baseline", {})
    rows = []
    for target in [*metrics["test"]][:MAX_TARGETS]:
        for name in [name for name in METRICS if name in metrics["test"][target]]:
            rows.append(
                [
                    f"{METRICS[name].label} of {code(target)}{_unit(run_files, target, name)}",
                    number(metrics["val"][target][name]),
                    number(metrics["test"][target][name]),
                    _interval(metrics.get("test_intervals", {}).get(target, {}).get(name)),
                    number(baseline["test"][target][name]) if "test" in baseline else "not measured",
                ]
            )
    header = ["metric", "validation", "test", f"{INTERVAL:.0%} interval of test", "constant prediction, test"]
    lines = [*table(header, rows), *_more(len(metrics["test"])), ""]
    counts = {target: metrics["test"][target]["n"] for target in [*metrics["test"]][:MAX_TARGETS]}
    n = ", ".join(f"{count:,} of {code(target)}{_bounds(run_files, target)}" for target, count in counts.items())
    lines.append(
        f"Test labels: {n}. Intervals are bootstrap intervals over the test molecules; the constant prediction is"
    )
    lines.append(
        f"{escaped(baseline.get('what', 'that of a model without input'))}. The epoch was chosen by validation."
    )
    return lines


def _bounds(run_files: RunFiles, target: str) -> str:
    """The number of test labels that are bounds, which metrics ignore."""
    count = run_files.metrics["test"][target].get("censored", 0)
    return f" (and {count:,} bounds, which metrics ignore)" if count else ""


def _unit(run_files: RunFiles, target: str, metric: str) -> str:
    unit = run_files.metrics.get("units", {}).get(target, "")
    shown = unit and METRICS[metric].has_unit and not name_has_unit(target, unit)
    return f", {escaped(unit)}" if shown else ""


def _interval(ends: Sequence[float] | None) -> str:
    return "undefined" if ends is None else " to ".join(map(number, ends))


def uncertainty_section(run_files: RunFiles) -> list[str]:
    """Standard deviations, calibration, and the coverage of intervals."""
    method, calibration = run_files.config["uncertainty"]["method"], run_files.config["calibration"]
    lines = [f"- Standard deviations: {'none' if method == 'none' else code(method)}"]
    lines.append(f"- Calibration: {'none' if calibration is None else code(calibration['method'])}")
    measured = run_files.metrics.get("uncertainty")
    if not measured:
        return [*lines, "- Coverage: not measured"]
    level, rows = measured["level"], []
    names = {"coverage": f"coverage of {level:.0%}", "width": "mean width", "size": "mean size of sets"}
    names |= {"nll": "NLL", "ence": "ENCE", "ece": "ECE", "miscalibration_area": "miscalibration area"}
    columns = [n for n in names if any(n in v for split in ("val", "test") for v in measured[split].values())]
    for target in [*measured["test"]][:MAX_TARGETS]:
        for split in ("val", "test"):
            values = measured[split][target]
            rows.append([code(target), SUBSET_NAMES[split], *(number(values.get(n)) for n in columns)])
    kind = "intervals" if run_files.config["task"]["kind"] == "regression" else "sets of classes"
    return [
        *lines,
        "",
        f"The {kind} for a probability of {level:.0%}:",
        "",
        *table(["target", "molecules", *map(names.__getitem__, columns)], rows),
        *_more(len(measured["test"])),
    ]


def faithfulness_section(run_files: RunFiles) -> list[str]:
    """The measured faithfulness of attention and attributions."""
    if not run_files.faithfulness:
        return [
            "Not measured: `molattn faithfulness RUN` measures it on the test molecules of a run. Attention shows "
            "the weights of atoms within the model, and is not by itself an explanation of a prediction."
        ]
    lines = []
    for target, methods in run_files.faithfulness.items():
        lines += [f"Of {code(target)}:", "", *(f"- {code(m)}: {escaped(text)}" for m, text in methods.items()), ""]
    return lines[:-1]
