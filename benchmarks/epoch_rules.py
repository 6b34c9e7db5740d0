"""Rules that choose the epoch of a training, applied to the results of `epoch_choice.py`; the page docs/epochs.md."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from report import bootstrap_over_groups, describe_machine, machine, markdown
from tables import read_rows

from molattn.training import metrics

TASK_METRICS = {"binary": ("auroc", "auprc"), "regression": ("rmse", "mae", "spearman")}
"""The metrics of each task type; the rules are compared by the first one."""

EPOCHS = 40
"""Epochs of the default schedule."""

RULES = ("least loss", "best metric", "best second metric", "metric, mean of 3", "last epoch")
PATIENCES = (0, 5, 10, 15, 20)
"""0 for no early stopping."""

Key = tuple[str, str, int, int]


@dataclass(frozen=True)
class Training:
    """One training, epoch by epoch.

    Attributes:
        key: data set, kind of split, fold and number of epochs.
        kind: the task type, "binary" or "regression".
        train: the number of training molecules.
        values: by column, (epochs,); negated where smaller is better.
    """

    key: Key
    kind: str
    train: int
    values: dict[str, np.ndarray]


def read_trainings(path: Path) -> list[Training]:
    """The trainings in a file of results."""
    rows_of: dict[Key, list[dict[str, str]]] = {}
    for row in read_rows(path):
        key = (row["dataset"], row["split"], int(row["fold"]), int(row["epochs"]))
        rows_of.setdefault(key, []).append(row)
    trainings = []
    for key, rows in sorted(rows_of.items()):
        kind, values = rows[0]["task"], {}
        for column in ("val_loss", *(f"{side}_{name}" for side in ("val", "held") for name in TASK_METRICS[kind])):
            numbers = np.array([float(row[column] or "nan") for row in rows])
            name = column.partition("_")[2]
            values[column] = numbers if name in metrics.METRICS and metrics.METRICS[name].larger_is_better else -numbers
        trainings.append(Training(key, kind, int(rows[0]["train"]), values))
    return trainings


def smoothed(values: np.ndarray) -> np.ndarray:
    """The mean of each value and the two before it."""
    return np.array([values[max(0, i - 2) : i + 1].mean() for i in range(len(values))])


def early_stopping(values: np.ndarray, patience: int) -> tuple[int, int]:
    """The earliest best epoch, from 1, and the number of epochs until none is better for `patience` epochs."""
    best = 0
    for i, value in enumerate(values):
        if value > values[best]:
            best = i
        if i - best >= patience:
            return best + 1, i + 1
    return best + 1, len(values)


def apply_rule(training: Training, rule: str, patience: int = 0) -> dict[str, Any]:
    """The epoch that a rule keeps, the number of epochs trained, and the metric of the held-out molecules."""
    first, second = TASK_METRICS[training.kind][:2]
    values = {
        "least loss": training.values["val_loss"],
        "best metric": training.values[f"val_{first}"],
        "best second metric": training.values[f"val_{second}"],
        "metric, mean of 3": smoothed(training.values[f"val_{first}"]),
        "last epoch": np.arange(len(training.values["val_loss"])),
    }[rule]
    kept, trained = early_stopping(values, patience or len(values))
    held, val_loss = (abs(float(training.values[name][kept - 1])) for name in (f"held_{first}", "val_loss"))
    return {"kept": kept, "trained": trained, "held": held, "val_loss": val_loss}


def improvement(kind: str, value: float, reference: float) -> float:
    """The improvement of a metric in hundredths: of the AUROC, or of the RMSE of the reference."""
    return 100 * (value - reference) if kind == "binary" else 100 * (reference - value) / reference


def improvements(trainings: Sequence[Training], rule: str, patience: int) -> np.ndarray:
    """The improvement of each training by the rule, relative to the least loss of all its epochs."""
    return np.array(
        [improvement(t.kind, apply_rule(t, rule, patience)["held"], apply_rule(t, RULES[0])["held"]) for t in trainings]
    )


def interval(values: np.ndarray, datasets: Sequence[str]) -> str:
    """The mean of the means of the data sets, and its 95% bootstrap interval over data sets and their trainings."""
    groups = [values[[i for i, name in enumerate(datasets) if name == own]] for own in dict.fromkeys(datasets)]
    return "{:+.2f} ({:+.2f} to {:+.2f})".format(*bootstrap_over_groups(groups))


def write_rules(trainings: Sequence[Training], path: Path) -> None:
    """Write a row for each training and rule."""
    columns = ("dataset", "task", "split", "fold", "epochs", "rule", "patience", "kept", "trained", "metric", "held")
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        for training in trainings:
            name, split, fold, epochs = training.key
            for rule in RULES:
                for patience in PATIENCES if rule != RULES[-1] else PATIENCES[:1]:
                    found = apply_rule(training, rule, patience)
                    row = [name, training.kind, split, fold, epochs, rule, patience or "", found["kept"]]
                    writer.writerow([*row, found["trained"], TASK_METRICS[training.kind][0], f"{found['held']:.5g}"])


def rule_labels(kind: str) -> list[str]:
    """The names of the rules for a task type."""
    first, second = (metrics.METRICS[name].label for name in TASK_METRICS[kind][:2])
    return ["least loss", f"best {first}", f"best {second}", f"best mean {first} of 3 epochs", "last epoch"]


def table_of_datasets(trainings: Sequence[Training]) -> str:
    """A row for each data set: the metric of the held-out molecules by each rule, and the epoch kept."""
    rows = []
    for name in dict.fromkeys(t.key[0] for t in trainings):
        own, cells = [t for t in trainings if t.key[0] == name], []
        for rule in RULES:
            found = [apply_rule(t, rule) for t in own]
            cells.append(f"{np.mean([f['held'] for f in found]):.3f} ({np.mean([f['kept'] for f in found]):.0f})")
        rows.append([name, len(own), *cells])
    return markdown(["data set", "trainings", *rule_labels(trainings[0].kind)], rows)


def table_of_rules(trainings: Sequence[Training]) -> str:
    """A row for each rule and patience: the improvement over the least loss of all epochs, and the epochs trained."""
    datasets, rows = [t.key[0] for t in trainings], []
    for rule, label in zip(RULES, rule_labels(trainings[0].kind), strict=True):
        for patience in PATIENCES if rule != RULES[-1] else PATIENCES[:1]:
            found = [apply_rule(t, rule, patience) for t in trainings]
            share = np.mean([f["trained"] / t.key[3] for f, t in zip(found, trainings, strict=True)])
            losses = [
                f["val_loss"] / apply_rule(t, RULES[0])["val_loss"] for f, t in zip(found, trainings, strict=True)
            ]
            gains = improvements(trainings, rule, patience)
            shown = interval(gains, datasets) if rule != RULES[0] or patience else ""
            counts = f"{(gains > 0).sum()}, {(gains < 0).sum()}"
            rows.append([label, patience or "none", shown, counts, f"{np.median(losses):.2f}", f"{share:.0%}"])
    return markdown(["rule", "patience", "improvement", "better, worse", "validation loss", "epochs trained"], rows)


def table_of_schedules(trainings: Sequence[Training]) -> str:
    """A row for each shorter schedule and rule: the improvement relative to `EPOCHS` epochs by the same rule."""
    rows, full = [], {t.key[:3]: t for t in trainings if t.key[3] == EPOCHS}
    for shorter in sorted({t.key[3] for t in trainings} - {EPOCHS}):
        own = [t for t in trainings if t.key[3] == shorter and t.key[:3] in full]
        for rule, label in zip(RULES, rule_labels(trainings[0].kind), strict=True):
            pairs = [(t, apply_rule(t, rule)["held"], apply_rule(full[t.key[:3]], rule)["held"]) for t in own]
            gains = np.array([improvement(t.kind, short, long) for t, short, long in pairs])
            rows.append([shorter, label, len(own), interval(gains, [t.key[0] for t in own])])
    return markdown(["epochs", "rule", "trainings", "improvement"], rows)


PATIENCE = 15
"""The patience of a training from a base model by default."""


def table_of_time(trainings: Sequence[Training], seconds: Mapping[str, float]) -> str:
    """A row for each data set: the least loss of all epochs, and the least loss with the default patience.

    `seconds` are the CPU seconds of an epoch by data set; other data sets are omitted.
    """
    rows, total = [], np.zeros(2)
    for name in sorted(dict.fromkeys(t.key[0] for t in trainings if t.key[0] in seconds), key=lambda n: seconds[n]):
        own = [t for t in trainings if t.key[0] == name]
        found = [[apply_rule(t, RULES[0], patience) for t in own] for patience in (0, PATIENCE)]
        means = [{key: float(np.mean([f[key] for f in of_rule])) for key in of_rule[0]} for of_rule in found]
        times = np.array([seconds[name] * mean["trained"] for mean in means])
        total += times
        metric = metrics.METRICS[TASK_METRICS[own[0].kind][0]].label
        cells = [f"{mean[key]:.{digits}f}" for key, digits in (("kept", 0), ("held", 3)) for mean in means]
        rows.append([name, own[0].train, metric, len(own), *cells, *(f"{s:.0f}" for s in times)])
    rows.append(["all", "", "", "", "", "", "", "", *(f"{s:.0f}" for s in total)])
    heads = ["epoch kept, all 40", f"patience {PATIENCE}", "held out, all 40", f"patience {PATIENCE}"]
    return markdown(
        ["data set", "molecules", "metric", "trainings", *heads, "seconds, all 40", f"patience {PATIENCE}"], rows
    )


def page(trainings: Sequence[Training], seconds: Mapping[str, float]) -> str:
    """The text of docs/epochs.md; `seconds` are the CPU seconds of an epoch by data set."""
    full = [t for t in trainings if t.key[3] == EPOCHS]
    parts = [INTRODUCTION, f"{TIME}\n\n{table_of_time(full, seconds)}"]
    for kind, (title, unit) in SECTIONS.items():
        of_kind = [t for t in trainings if t.kind == kind]
        if own := [t for t in of_kind if t.key[3] == EPOCHS]:
            label = metrics.METRICS[TASK_METRICS[kind][0]].label
            parts.append(f"## {title}\n\n{DATASETS.format(label, EPOCHS)}\n\n{table_of_datasets(own)}")
            parts.append(f"{RULE_TABLE.format(len(own), EPOCHS)} {unit}\n\n{table_of_rules(own)}")
        if {t.key[3] for t in of_kind} - {EPOCHS}:
            parts.append(f"{SCHEDULES.format(EPOCHS)}\n\n{table_of_schedules(of_kind)}")
    parts.append(describe_machine(machine(("torch", "rdkit", "molattn"))))
    return "\n\n".join(parts) + "\n"


INTRODUCTION = """# The epoch that is kept, and early stopping

After every epoch the averaged weights predict the validation molecules. The model keeps the weights of the earliest
epoch with the best value of one quantity, `--tracking-metric`: `val_loss`, the default, or a reported metric, such as
`auroc`; for several targets their mean, as it is reported. The progress display shows the current and the best value,
`history.csv` has its column, and `metrics.json` names it next to `best_epoch`. Epochs count from 1 everywhere. If a
metric is undefined for the labels of the validation molecules, such as the AUROC of a single class, the loss is used
instead, with a warning.

Training stops after `training.patience` epochs without a better value: 15 from a base model, whose schedule has 40
epochs, and 40 from scratch, whose schedule has 100. The schedule of the learning rate does not depend on early
stopping, so that a training that stops early is the beginning of the one that continues.

Made by `python benchmarks/epoch_choice.py --page docs/epochs.md`, whose help describes the protocol, from
`benchmarks/results/epoch_choice_curves.csv`, a row for every epoch; `epoch_choice.csv` has a row for every training and
rule. The data are the training and validation tables of TDC's ADMET group; settings are the defaults, from the base
`nci`, with seed 0; the tables of test molecules were not read. The order of the trainings was decided during the
experiment, because time was limited: classification before regression after the first results.

Conclusions from the tables:

- **Classification: the loss, as before.** By the AUROC of the held-out molecules, the loss and the AUROC of 40 to 970
  validation molecules do not differ significantly: the interval of their difference includes 0. So choosing by the
  reported metric has no measurable benefit. The epoch of the best AUROC is later, and its probabilities are worse
  calibrated: its validation loss is higher. The mean over three epochs is not better than either. If only the ranking
  matters, `--tracking-metric auroc` is an equally good choice.
- **Regression: the loss, as before.** For one target and the default loss, the epochs of the least loss and of the
  least RMSE are the same. The least mean RMSE of three epochs was better in 9 trainings and worse in 2, by 1.35%. Its
  interval ends at 0.05%, and it is one of many rules that were compared: a reason to measure more, but not yet to
  change the default. `vdss_lombardo` has a few extreme values, which dominate the RMSE of any epoch: its differences,
  and the means that include them, such as those of the MAE, are mostly noise.
- **The last epoch** has a validation loss above the least one; for classification more than twice that.
- **Patience 15** kept the same epoch as all epochs in the 32 trainings of classification and in 12 of the 14 of
  regression, of which one became better and one worse. It takes 519 seconds instead of 852 for one training of each
  data set. On five splits of ESOL (the default split, random0 to random2, and the scaffold split, where a patience of
  10 would have kept another epoch) it keeps the same epoch. A patience of 5 saves more, but was worse for regression in
  three of five that changed.

Not measured: data sets of more than 13,000 molecules, several classes or targets, training from scratch and other
seeds, which is why the patience from scratch is still 40. The large data sets have one training each. There are too few
trainings with shorter schedules to choose one, so there are 40 epochs as before."""

SECTIONS = {
    "binary": ("Classification", "They are hundredths of the AUROC."),
    "regression": ("Regression", "They are percent of the RMSE."),
}
TIME = (
    "## Before and after\n\nThe least validation loss of all 40 epochs, and that with a patience of 15, now the "
    "default: means over the trainings of the epoch kept, of the metric of the held-out molecules, and of the CPU "
    "seconds, which are the number of epochs times the seconds of one (`--seconds`, one thread, validation included)."
)
DATASETS = "{} of the held-out molecules, the mean over the trainings, and in brackets the epoch kept, of {}:"
RULE_TABLE = (
    "All {} trainings: the improvement of the metric of the held-out molecules relative to the least loss of all {} "
    "epochs, the mean over data sets, and in brackets its 95% interval (a bootstrap interval with 10,000 samples of "
    "data sets, and then of their trainings); the numbers of trainings that are better and worse; the median of the "
    "validation loss of the epoch kept relative to the least one; and the share of the epochs that are trained."
)
SCHEDULES = (
    "Trainings with fewer epochs, at whose end the learning rate is zero too, relative to those of {} on the same "
    "molecules by the same rule:"
)
