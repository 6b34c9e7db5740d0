"""Rules that choose the epoch of a training, applied to the lines of `epoch_choice.py`, and the page docs/epochs.md."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from report import in_words, machine, markdown

from molattn.training.metrics import METRICS as KNOWN

METRICS = {"binary": ("auroc", "auprc"), "regression": ("rmse", "mae", "spearman")}
"""The metrics of each kind of targets; the first one is that of the molecules held out."""

EPOCHS = 40
"""Epochs of the default schedule."""

RULES = ("least loss", "best metric", "best second metric", "metric, mean of 3", "last epoch")
PATIENCES = (0, 5, 10, 15, 20)
"""0 for none."""

Key = tuple[str, str, int, int]


@dataclass(frozen=True)
class Training:
    """One training, epoch by epoch.

    Attributes:
        key: its data set, kind of split, fold and epochs.
        kind: of its targets.
        train: how many molecules it trains on.
        values: by the name of a column, (epochs,); those where less is better have their sign turned.
    """

    key: Key
    kind: str
    train: int
    values: dict[str, np.ndarray]


def read_lines(path: Path) -> list[dict[str, str]]:
    """The lines of a CSV file; none where there is no file yet."""
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def read_trainings(path: Path) -> list[Training]:
    """The trainings of a file of lines."""
    lines: dict[Key, list[dict[str, str]]] = {}
    for line in read_lines(path):
        key = (line["dataset"], line["split"], int(line["fold"]), int(line["epochs"]))
        lines.setdefault(key, []).append(line)
    found = []
    for key, own in sorted(lines.items()):
        kind, values = own[0]["task"], {}
        for measured in ("val_loss", *(f"{side}_{name}" for side in ("val", "held") for name in METRICS[kind])):
            numbers = np.array([float(line[measured] or "nan") for line in own])
            name = measured.partition("_")[2]
            values[measured] = numbers if name in KNOWN and KNOWN[name].larger_is_better else -numbers
        found.append(Training(key, kind, int(own[0]["train"]), values))
    return found


def smoothed(values: np.ndarray) -> np.ndarray:
    """The mean of each value and the two before it."""
    return np.array([values[max(0, i - 2) : i + 1].mean() for i in range(len(values))])


def chosen(values: np.ndarray, patience: int) -> tuple[int, int]:
    """The earliest best epoch, and how many epochs are trained until none is better for `patience`, both from 1."""
    best = 0
    for i, value in enumerate(values):
        if value > values[best]:
            best = i
        if i - best >= patience:
            return best + 1, i + 1
    return best + 1, len(values)


def apply_rule(training: Training, rule: str, patience: int = 0) -> dict[str, Any]:
    """The epoch that a rule keeps, the epochs it trains, and the metric on the molecules held out."""
    first, second = METRICS[training.kind][:2]
    values = {
        "least loss": training.values["val_loss"],
        "best metric": training.values[f"val_{first}"],
        "best second metric": training.values[f"val_{second}"],
        "metric, mean of 3": smoothed(training.values[f"val_{first}"]),
        "last epoch": np.arange(len(training.values["val_loss"])),
    }[rule]
    kept, trained = chosen(values, patience or len(values))
    held, val_loss = (abs(float(training.values[name][kept - 1])) for name in (f"held_{first}", "val_loss"))
    return {"kept": kept, "trained": trained, "held": held, "val_loss": val_loss}


def better(kind: str, value: float, than: float) -> float:
    """By how much a metric of held-out molecules is better, in hundredths: of the AUROC, or of the RMSE of `than`."""
    return 100 * (value - than) if kind == "binary" else 100 * (than - value) / than


def gains(trainings: Sequence[Training], rule: str, patience: int) -> np.ndarray:
    """By how much each training is better by the rule than by the least loss of all its epochs."""
    pairs = [(t, apply_rule(t, rule, patience), apply_rule(t, RULES[0])) for t in trainings]
    return np.array([better(t.kind, mine["held"], least["held"]) for t, mine, least in pairs])


def interval(values: np.ndarray, sets: Sequence[str], draws: int = 10_000) -> str:
    """The mean of the data sets' means, with its 95% interval where data sets, and then their trainings, are drawn."""
    rng = np.random.default_rng(0)
    of_sets = [values[[i for i, name in enumerate(sets) if name == wanted]] for wanted in dict.fromkeys(sets)]
    drawn = rng.integers(len(of_sets), size=(draws, len(of_sets)))
    means = np.zeros(drawn.shape)
    for i, own in enumerate(of_sets):
        of_set = own[rng.integers(len(own), size=(*drawn.shape, len(own)))].mean(2)
        means = np.where(drawn == i, of_set, means)
    low, high = np.percentile(means.mean(1), (2.5, 97.5))
    return f"{np.mean([own.mean() for own in of_sets]):+.2f} ({low:+.2f} to {high:+.2f})"


def write_rules(trainings: Sequence[Training], path: Path) -> None:
    """A line for each training and rule."""
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
                    writer.writerow([*row, found["trained"], METRICS[training.kind][0], f"{found['held']:.5g}"])


def labels(kind: str) -> list[str]:
    """The rules as they are called for targets of this kind."""
    first, second = (KNOWN[name].label for name in METRICS[kind][:2])
    return ["least loss", f"best {first}", f"best {second}", f"best mean {first} of 3 epochs", "last epoch"]


def table_of_sets(trainings: Sequence[Training]) -> str:
    """A line for each data set: the metric of the held-out molecules under each rule, and the epoch kept."""
    rows = []
    for name in dict.fromkeys(t.key[0] for t in trainings):
        own, cells = [t for t in trainings if t.key[0] == name], []
        for rule in RULES:
            found = [apply_rule(t, rule) for t in own]
            cells.append(f"{np.mean([f['held'] for f in found]):.3f} ({np.mean([f['kept'] for f in found]):.0f})")
        rows.append([name, len(own), *cells])
    return markdown(["data set", "trainings", *labels(trainings[0].kind)], rows)


def table_of_rules(trainings: Sequence[Training]) -> str:
    """A line for each rule and patience: beside the least loss of all epochs, and the share of the epochs trained."""
    sets, rows = [t.key[0] for t in trainings], []
    for rule, label in zip(RULES, labels(trainings[0].kind), strict=True):
        for patience in PATIENCES if rule != RULES[-1] else PATIENCES[:1]:
            found = [apply_rule(t, rule, patience) for t in trainings]
            spent = np.mean([f["trained"] / t.key[3] for f, t in zip(found, trainings, strict=True)])
            losses = [
                f["val_loss"] / apply_rule(t, RULES[0])["val_loss"] for f, t in zip(found, trainings, strict=True)
            ]
            more = gains(trainings, rule, patience)
            shown = interval(more, sets) if rule != RULES[0] or patience else ""
            counts = f"{(more > 0).sum()}, {(more < 0).sum()}"
            rows.append([label, patience or "none", shown, counts, f"{np.median(losses):.2f}", f"{spent:.0%}"])
    return markdown(["rule", "patience", "better by", "better, worse", "validation loss", "epochs trained"], rows)


def table_of_schedules(trainings: Sequence[Training]) -> str:
    """A line for each shorter schedule and rule: the difference from `EPOCHS` by the same rule."""
    rows, whole = [], {t.key[:3]: t for t in trainings if t.key[3] == EPOCHS}
    for shorter in sorted({t.key[3] for t in trainings} - {EPOCHS}):
        own = [t for t in trainings if t.key[3] == shorter and t.key[:3] in whole]
        for rule, label in zip(RULES, labels(trainings[0].kind), strict=True):
            pairs = [(t, apply_rule(t, rule)["held"], apply_rule(whole[t.key[:3]], rule)["held"]) for t in own]
            more = np.array([better(t.kind, mine, theirs) for t, mine, theirs in pairs])
            rows.append([shorter, label, len(own), interval(more, [t.key[0] for t in own])])
    return markdown(["epochs", "rule", "trainings", "better by"], rows)


PATIENCE = 15
"""The patience of a training from a base model by default."""


def table_of_time(trainings: Sequence[Training], seconds: Mapping[str, float]) -> str:
    """A line for each data set: the least loss of all epochs beside the least loss with the default patience.

    Args:
        seconds: of CPU for an epoch, by data set; trainings of other sets are left out.
    """
    rows, all_spent = [], np.zeros(2)
    for name in sorted(dict.fromkeys(t.key[0] for t in trainings if t.key[0] in seconds), key=lambda n: seconds[n]):
        own = [t for t in trainings if t.key[0] == name]
        found = [[apply_rule(t, RULES[0], patience) for t in own] for patience in (0, PATIENCE)]
        means = [{key: float(np.mean([f[key] for f in of_rule])) for key in of_rule[0]} for of_rule in found]
        spent = np.array([seconds[name] * mean["trained"] for mean in means])
        all_spent += spent
        metric = KNOWN[METRICS[own[0].kind][0]].label
        cells = [f"{mean[key]:.{digits}f}" for key, digits in (("kept", 0), ("held", 3)) for mean in means]
        rows.append([name, own[0].train, metric, len(own), *cells, *(f"{s:.0f}" for s in spent)])
    rows.append(["all", "", "", "", "", "", "", "", *(f"{s:.0f}" for s in all_spent)])
    heads = ["epoch kept, all 40", f"patience {PATIENCE}", "held out, all 40", f"patience {PATIENCE}"]
    return markdown(
        ["data set", "molecules", "metric", "trainings", *heads, "seconds, all 40", f"patience {PATIENCE}"], rows
    )


def page(trainings: Sequence[Training], seconds: Mapping[str, float]) -> str:
    """The text of docs/epochs.md; `seconds` are those of an epoch, by data set."""
    whole = [t for t in trainings if t.key[3] == EPOCHS]
    parts = [INTRODUCTION, f"{OF_TIME}\n\n{table_of_time(whole, seconds)}"]
    for kind, (title, unit) in KINDS.items():
        of_kind = [t for t in trainings if t.kind == kind]
        if own := [t for t in of_kind if t.key[3] == EPOCHS]:
            label = KNOWN[METRICS[kind][0]].label
            parts.append(f"## {title}\n\n{OF_SETS.format(label, EPOCHS)}\n\n{table_of_sets(own)}")
            parts.append(f"{OF_RULES.format(len(own), EPOCHS)} {unit}\n\n{table_of_rules(own)}")
        if {t.key[3] for t in of_kind} - {EPOCHS}:
            parts.append(f"{OF_SCHEDULES.format(EPOCHS)}\n\n{table_of_schedules(of_kind)}")
    parts.append(in_words(machine(("torch", "rdkit", "molattn"))))
    return "\n\n".join(parts) + "\n"


INTRODUCTION = """# Which epoch is kept, and when a training stops

After every epoch the averaged weights predict the validation molecules. The model keeps the weights of the earliest
epoch with the best value of one quantity, `--tracking-metric`: `val_loss`, the default, or a reported metric, such as
`auroc`; of several targets the mean, as it is reported. The screen shows that value and the best so far,
`history.csv` has its column, and `metrics.json` names it beside `best_epoch`. Epochs count from 1 everywhere. A
metric that the labels of the validation molecules leave undefined, as one class does the AUROC, gives way to the
loss, and a warning says so.

Training stops after `training.patience` epochs without a better value: 15 from a base model, whose schedule has 40
epochs, and 40 from scratch, whose schedule has 100. The learning rate falls as if no epoch were left out, so that a
training that stops early is the beginning of the one that goes on.

Made by `python benchmarks/epoch_choice.py --page docs/epochs.md`, whose help has the protocol, from
`benchmarks/results/epoch_choice_curves.csv`, a line for every epoch; `epoch_choice.csv` beside it has a line for
every training and rule. The data are training and validation tables of TDC's ADMET group; settings are the defaults,
from the base `nci`, with seed 0; no table of test molecules was opened. What was trained in which order was decided
on the way, because time was short: classes came before numbers once the first results were in.

What follows from the tables:

- **Classes: the loss, as before.** By the AUROC of the molecules held out, the loss and the AUROC of 40 to 970
  validation molecules cannot be told apart: the interval of their difference holds 0. So there is no gain in choosing
  by the reported metric. The epoch of the best AUROC comes later, and its probabilities fit worse: its validation
  loss is higher. The mean over three epochs is not better than either. Where only the ranking matters,
  `--tracking-metric auroc` is as good a choice.
- **Numbers: the loss, as before.** For one target and the default loss, the epochs of the least loss and of the least
  RMSE are the same. The least mean RMSE of three epochs was better in 9 trainings and worse in 2, by 1.35%. The
  interval of that ends at 0.05%, and it is one of many rules that were compared: a reason to measure more, but not
  yet to change the default. `vdss_lombardo` has a few values far from all others, which decide the RMSE of any epoch:
  its differences, and the means that they enter, such as those of the MAE, are mostly chance.
- **The last epoch** has a validation loss above the least one; of classes more than twice that.
- **Patience 15** kept the epoch that all epochs would have kept in the 32 trainings of classes and in 12 of the 14 of
  numbers, of which one became better and one worse. It takes 519 seconds instead of 852 for one training of each set.
  On five splits of ESOL (the one by default, random0 to random2, and the scaffold split, where a patience of 10 would
  have kept another epoch) it keeps the same epoch. A patience of 5 saves more, but was worse for numbers in three of
  five that changed.

What they do not say: sets of more than 13,000 molecules, several classes or targets, training from scratch and other
seeds were not measured, which is why the patience from scratch is still 40. The large sets have one training each. Of
schedules with fewer epochs there are too few trainings to choose one, so there are 40 epochs as before."""

KINDS = {
    "binary": ("Classes", "They are hundredths of the AUROC."),
    "regression": ("Numbers", "They are per cent of the RMSE."),
}
OF_TIME = (
    "## Before and after\n\nThe least validation loss of all 40 epochs, and that with a patience of 15, the default "
    "since: the mean over the trainings of the epoch kept, of the metric of the molecules held out, and of the seconds "
    "of CPU, which are the epochs trained times what one takes (`--seconds`, one thread, validation included)."
)
OF_SETS = "{} of the molecules held out, the mean over the trainings, and in brackets the epoch kept, of {}:"
OF_RULES = (
    "All {} trainings: by how much the held-out molecules are predicted better than by the least loss of all {} "
    "epochs. It is the mean over data sets, and in brackets its 95% interval, for which data sets and then their "
    "trainings were drawn 10,000 times; then how many trainings are better and worse, the validation loss of the epoch "
    "kept relative to the least one, their median, and the share of the epochs that are trained."
)
OF_SCHEDULES = (
    "Trainings of fewer epochs, at whose end the learning rate is zero too, against those of {} on the same molecules "
    "by the same rule:"
)
