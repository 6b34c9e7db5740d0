"""The sections of a report about the run: metrics, learning curve, heads, faithfulness, data and settings."""

import json
import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from molattn.explain.head_summary import MIN_RECEIVERS
from molattn.training.metrics import METRICS
from molattn.viewer.report.blocks import Block, curve, folded, not_measured, paragraph, section, table
from molattn.viewer.report.model_parts import HEADS, Missing, ModelParts
from molattn.viewer.report.run_files import RunFiles
from molattn.viewer.report.target_values import TargetValues

NOT_METRICS = ("n", "why", "censored")
"""The entries of a target in metrics.json that are not metrics: the number of labels, and notes."""


def metric_label(name: str) -> str:
    """The label of a metric, or its name if molattn does not know it."""
    return METRICS[name].label if name in METRICS else name


def metrics(run: RunFiles) -> Iterator[Block]:
    """For each target the metrics of each split, the confidence intervals on the test molecules, and the baseline."""
    splits = [split for split in ("train", "val", "test") if split in run.metrics]
    baseline = run.metrics.get("baseline", {})
    for t, target in enumerate(run.targets):
        by_split = {split: run.metrics[split].get(target.name, {}) for split in splits}
        names = [name for name in by_split.get("test", {}) if name not in NOT_METRICS]
        if not names:
            blocks = [not_measured("The run has no metrics.json with this target.")]
            yield section("metrics", "Metrics", blocks, t)
            continue
        intervals = run.metrics.get("test_intervals", {}).get(target.name, {})
        columns = ["", *splits, "95% interval of test", "baseline on test"]
        rows: list[list[Any]] = [
            [
                metric_label(name),
                *(by_split[split].get(name) for split in splits),
                format_interval(intervals.get(name)),
                _of_baseline(name, baseline.get("test", {}).get(target.name, {}).get(name)),
            ]
            for name in names
        ]
        rows += _transformed_metrics(run, target, splits)
        rows.append(["molecules", *(by_split[split].get("n") for split in splits), "", None])
        what = f"The baseline is {baseline['what']}." if baseline.get("what") else ""
        own_unit = target.unit if target.original is None else target.original.unit
        unit = f" RMSE and MAE are in {own_unit}." if own_unit and target.kind == "regression" else ""
        if target.original is not None:
            unit += (
                f" The model learned {target.unit}: those of the rows with this unit, the plot, and all errors below "
                "are in it."
            )
        yield section("metrics", "Metrics", [table(target.name, columns, rows), paragraph(f"{what}{unit}")], t)


def _transformed_metrics(run: RunFiles, target: TargetValues, splits: Sequence[str]) -> list[list[Any]]:
    """The metrics of the transformed values; those that a transform does not change are left out."""
    if target.original is None:
        return []
    by_split = {split: run.metrics.get("transformed", {}).get(split, {}).get(target.name, {}) for split in splits}
    names = [name for name in by_split.get("test", {}) if name in ("rmse", "mae", "r2")]
    return [
        [f"{metric_label(name)}, {target.unit}", *(by_split[split].get(name) for split in splits), "", None]
        for name in names
    ]


def _of_baseline(name: str, value: float | None) -> float | None:
    """A metric of the baseline; an R2 of nearly 0, as that of a mean always is, is rounded to 0."""
    return 0.0 if name == "r2" and value is not None and abs(value) < 1e-4 else value


def format_interval(ends: Any) -> str:
    """An interval of metrics.json, [low, high] or None, as text; empty if it or one of its ends is None."""
    if not isinstance(ends, list) or None in ends:
        return ""
    low, high = (f"{end:#.3g}".removesuffix(".") for end in ends)
    return f"{low} to {high}"


def learning(run: RunFiles) -> Iterator[Block]:
    """The training and validation loss of each epoch, and which epoch is the best; of an ensemble, the first member."""
    history = run.history
    if not {"epoch", "train_loss", "val_loss"} <= history.keys():
        yield section("learning", "Learning curve", [not_measured("The run has no history.csv.")])
        return
    members = history.get("member", [0.0] * len(history["epoch"]))
    rows = [i for i, member in enumerate(members) if member == members[0]]
    epochs = [history["epoch"][i] for i in rows]
    lines = {name: (epochs, [history[f"{name}_loss"][i] for i in rows]) for name in ("train", "val")}
    is_best = history.get("best", [0.0] * len(members))
    best = max((history["epoch"][i] for i in rows if is_best[i]), default=None)
    count = len(set(members))
    text = (
        "The training loss is the mean over batches, with dropout; the validation loss is that of the averaged weights."
    )
    blocks = [
        curve("epoch", "loss", lines, None if best is None else [best, f"best: epoch {best:g}"]),
        paragraph(text + (f" This is the first of {count} members of an ensemble." if count > 1 else "")),
    ]
    yield section("learning", "Learning curve", blocks)


def heads(run: RunFiles, parts: ModelParts) -> Iterator[Block]:
    """The attention of each head by distance, its entropy, and the functional group with the largest ratio."""
    if parts.heads is None or parts.heads.shape is None:
        default = Missing("What heads attend to was not measured.", f"molattn heads {run.quoted_folder}")
        missing = parts.missing.get(HEADS, default)
        yield section("heads", "What heads attend to", [not_measured(missing.why, missing.command)])
        return
    summary = parts.heads
    distances = [key for key in summary.keys("distance") if summary.uniform(key)]
    entropy = summary.relative_entropy()
    layers, heads_per_layer = parts.heads.shape
    columns = ["head", *(key.sender for key in distances), "entropy", "group with the largest ratio"]
    rows: list[list[Any]] = [["uniform", *(round(100 * summary.uniform(key)) for key in distances), 100, ""]]
    for layer in range(layers):
        for head in range(heads_per_layer):
            shares = [round(100 * float(summary.share(key)[layer, head])) for key in distances]
            percent = None if entropy is None else round(100 * float(entropy[layer, head]))
            group, ratio = summary.top_group(layer, head)
            rows.append([f"{layer}.{head}", *shares, percent, f"{group} {ratio:.1f}x" if group else ""])
    text = (
        f"Attention in percent by the number of bonds between receiver and sender, over {summary.num_molecules:,} "
        "molecules. 1.3 is head 3 of layer 1, both from 0. Entropy is in percent of that of uniform attention. The "
        "ratio is the attention from other atoms to a functional group, divided by uniform attention, of groups with "
        f"at least {MIN_RECEIVERS} such atoms."
    )
    blocks = [paragraph(text), table("What heads attend to", columns, rows)]
    yield section("heads", "What heads attend to", [*blocks, paragraph(f"Faithfulness: {summary.faithfulness}.")])


def faithfulness(run: RunFiles) -> Iterator[Block]:
    """The measures of faithfulness of each explanation method, from faithfulness.json."""
    entries = run.faithfulness.get("targets", {})
    if not isinstance(entries, dict) or not entries:
        why = "How faithful attention and attributions are to this model was not measured."
        yield section("faithfulness", "Faithfulness", [not_measured(why, f"molattn faithfulness {run.quoted_folder}")])
        return
    blocks = []
    for name, entry in entries.items():
        methods = entry.get("methods", {})
        rows = [
            [
                method,
                *(m.get("measures", {}).get(measure, {}).get("value") for measure in ("swap_sign", "pair_r2")),
                m.get("deletion_ratio"),
                m.get("kendall"),
                m.get("summary", ""),
            ]
            for method, m in methods.items()
        ]
        columns = ("method", "edits", "pairs r2", "deletion", "Kendall tau", "summary")
        where = " ".join(filter(None, [str(entry.get("molecules", "")), entry.get("split", ""), "molecules"]))
        blocks.append(table(f"{name}, on {where} of {entry.get('data', '')}", columns, rows))
    text = (
        "Edits: the share of edited molecules for which the method predicts the direction of the change. Pairs r2: "
        "agreement with the measured changes of matched pairs. Deletion: the change of the prediction when the top "
        "atoms are deleted, divided by that for random atoms; 1 is chance. Kendall tau: agreement with true "
        "contributions, where they are known. All methods and measures:"
    )
    command = f"molattn faithfulness {run.quoted_folder}"
    yield section("faithfulness", "Faithfulness", [*blocks, paragraph(text, command)])


def curation(run: RunFiles) -> Iterator[Block]:
    """How many rows of the table were used, merged and rejected, and the problems that were found in it."""
    report = run.data_report
    if not report:
        yield section("curation", "Data", [not_measured("The run has no data_report.json.", "molattn check TABLE")])
        return
    counts = [(name, report.get(name)) for name in ("rows", "used", "merged", "rejected")]
    split = [(f"in {label}", count) for label, count in report.get("split", {}).items()]
    findings = [
        ["yes" if f.get("needs_attention") else "no", f.get("check", ""), f.get("message", "")]
        for f in report.get("findings", ())
    ]
    blocks = [table("Rows of the table", ("rows", "number"), [*counts, *split])]
    if findings:
        blocks.append(table("Findings", ("needs attention", "check", "finding"), findings))
    if run.rejected:
        rows = run.rejected[:100]
        blocks.append(folded(f"Rejected rows ({len(run.rejected):,})", [table("", ("line", "SMILES", "reason"), rows)]))
    yield section("curation", "Data", blocks)


def settings(run: RunFiles) -> Iterator[Block]:
    """The settings of the run, its environment, and the command that repeats it."""
    blocks = [
        folded(f"[{name}]", [table("", ("setting", "value"), _pairs(values))])
        for name, values in run.config.items()
        if isinstance(values, dict)
    ]
    if run.environment:
        blocks.append(folded("Environment", [table("", ("what", "value"), _pairs(run.environment))]))
    repeat = f"molattn train --config {shlex.quote(str(run.folder / 'config.toml'))}"
    text = (
        paragraph("The command that repeats this run:", repeat)
        if run.config
        else not_measured("The run has no config.toml.")
    )
    yield section("settings", "Settings", [text, *blocks])


def _pairs(values: dict[str, Any]) -> Iterable[tuple[str, str]]:
    """Settings and their values as text; those of a nested table are named TABLE.SETTING."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from ((f"{name}.{key}", str(inner)) for key, inner in value.items())
        else:
            yield name, value if isinstance(value, str) else json.dumps(value)
