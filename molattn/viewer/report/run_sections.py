"""The sections of a report on a run itself: metrics, learning curve, heads, faithfulness, data and settings."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from molattn.training.metrics import METRICS
from molattn.viewer.report.blocks import Block, curve, folded, not_measured, paragraph, section, table
from molattn.viewer.report.model_parts import HEADS, Missing, ModelParts
from molattn.viewer.report.run_files import RunFiles


def metric_label(name: str) -> str:
    """The label of a metric, or its name if it is not one of molattn's."""
    return METRICS[name].label if name in METRICS else name


def metrics(run: RunFiles) -> Iterator[Block]:
    """For each target the metrics of each split, with the interval of the test metrics and the baseline."""
    splits = [split for split in ("train", "val", "test") if split in run.metrics]
    baseline = run.metrics.get("baseline", {})
    for t, target in enumerate(run.targets):
        by_split = {split: run.metrics[split].get(target.name, {}) for split in splits}
        names = [name for name in by_split.get("test", {}) if name not in ("n", "why", "censored")]
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
        rows.append(["molecules", *(by_split[split].get("n") for split in splits), "", None])
        what = f"The baseline is {baseline['what']}." if baseline.get("what") else ""
        unit = f" RMSE and MAE are in {target.unit}." if target.unit and target.kind == "regression" else ""
        yield section("metrics", "Metrics", [table(target.name, columns, rows), paragraph(f"{what}{unit}")], t)


def _of_baseline(name: str, value: float | None) -> float | None:
    """A metric of the baseline. R2 of a mean is 0 or nearly so, and -1.53e-7 would look like a finding."""
    return 0.0 if name == "r2" and value is not None and abs(value) < 1e-4 else value


def format_interval(ends: Any) -> str:
    """An interval of metrics.json as text; empty if it is undefined."""
    return f"{ends[0]:.3g} to {ends[1]:.3g}" if isinstance(ends, list) and None not in ends else ""


def learning(run: RunFiles) -> Iterator[Block]:
    """The losses of each epoch, and the best one."""
    h = run.history
    if not {"epoch", "train_loss", "val_loss"} <= h.keys():
        yield section("learning", "Learning curve", [not_measured("The run has no history.csv.")])
        return
    members = h.get("member", [0.0] * len(h["epoch"]))
    of_first = [i for i, member in enumerate(members) if member == members[0]]
    epochs = [h["epoch"][i] for i in of_first]
    lines = {name: (epochs, [h[c][i] for i in of_first]) for name, c in (("train", "train_loss"), ("val", "val_loss"))}
    best = max((h["epoch"][i] for i in of_first if h.get("best", [0.0] * len(members))[i]), default=None)
    count = len(set(members))
    text = "The training loss is that of the batches, with dropout; the validation loss that of the averaged weights."
    blocks = [
        curve("epoch", "loss", lines, None if best is None else [best, f"best: epoch {best:g}"]),
        paragraph(text + (f" This is the first of {count} members of an ensemble." if count > 1 else "")),
    ]
    yield section("learning", "Learning curve", blocks)


def heads(run: RunFiles, parts: ModelParts) -> Iterator[Block]:
    """What each head attends to, by distance, and the functional group it favours most."""
    if parts.heads is None or parts.heads.shape is None:
        not_said = Missing("What heads attend to was not measured.", f"molattn heads {run.folder}")
        missing = parts.missing.get(HEADS, not_said)
        yield section("heads", "What heads attend to", [not_measured(missing.why, missing.command)])
        return
    summary = parts.heads
    distances = [key for key in summary.keys("distance") if summary.uniform(key)]
    entropy = summary.relative_entropy()
    layers, of_layer = parts.heads.shape
    columns = ["head", *(key.sender for key in distances), "entropy", "group with the largest ratio"]
    rows: list[list[Any]] = [["uniform", *(round(100 * summary.uniform(key)) for key in distances), 100, ""]]
    for layer in range(layers):
        for head in range(of_layer):
            shares = [round(100 * float(summary.share(key)[layer, head])) for key in distances]
            part = None if entropy is None else round(100 * float(entropy[layer, head]))
            group, ratio = summary.top_group(layer, head)
            rows.append([f"{layer}.{head}", *shares, part, f"{group} {ratio:.1f}x" if group else ""])
    text = (
        f"Percent of attention by the bonds between two atoms, over {summary.num_molecules:,} molecules. Head 1.3 is "
        "head 3 of layer 1, from 0. Entropy is in percent of that of uniform attention. The ratio is that of the "
        "attention which other atoms give to a functional group to uniform attention."
    )
    blocks = [paragraph(text), table("What heads attend to", columns, rows)]
    yield section("heads", "What heads attend to", [*blocks, paragraph(f"Faithfulness: {summary.faithfulness}.")])


def faithfulness(run: RunFiles) -> Iterator[Block]:
    """How faithful each method is that explains predictions."""
    entries = run.faithfulness.get("targets", {})
    if not isinstance(entries, dict) or not entries:
        why = "How faithful attention and attributions are to this model was not measured."
        yield section("faithfulness", "Faithfulness", [not_measured(why, f"molattn faithfulness {run.folder}")])
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
        "Edits: the share of real edits whose direction the method predicts. Pairs r2: agreement with the measured "
        "changes of matched pairs. Deletion: the change of the prediction without the top atoms, relative to random "
        "atoms; 1 is chance. Kendall tau: agreement with true contributions, where known. All methods and measures:"
    )
    command = f"molattn faithfulness {run.folder}"
    yield section("faithfulness", "Faithfulness", [*blocks, paragraph(text, command)])


def curation(run: RunFiles) -> Iterator[Block]:
    """What happened to the rows of the table, and the problems that were found in it."""
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
        blocks.append(folded(f"Rejected rows ({len(run.rejected):,})", [table("", ("line", "SMILES", "why"), rows)]))
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
    repeat = f"molattn train --config {run.folder / 'config.toml'}"
    text = paragraph("The same run again:", repeat) if run.config else not_measured("The run has no config.toml.")
    yield section("settings", "Settings", [text, *blocks])


def _pairs(values: dict[str, Any]) -> Iterable[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from ((f"{name}.{key}", str(inner)) for key, inner in value.items())
        else:
            yield name, value if isinstance(value, str) else json.dumps(value)
