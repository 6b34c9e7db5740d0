"""How far predicted changes can be trusted: on matched pairs of molecules that were held out of the training.

    python benchmarks/whatif.py ARENA -o whatif.json --page docs/results/whatif.md

ARENA is a folder with tables of TDC and MoleculeACE: `tdc/NAME/train_val.csv` and `moleculeace/NAME.csv`; only their
training molecules are used. Each data set is split at random, 60% for training, 20% for validation and 20% for the
test, with three seeds, and `molattn train --base nci` trains on it. The intervals of changes come from matched
pairs of validation molecules. Measured are the matched pairs with a test molecule, apart for two cases: the other
molecule is in the training set ("known"), or in the test set as well ("new"). The last column is what a chemist would
do without a model: the mean measured effect of the same replacement in training pairs, where there are three or more.
"""

import argparse
import csv
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
from commands import DATASETS, MOLATTN, run
from report import describe_machine, load_results, machine, markdown, save_results

import molattn
from molattn.chem import MatchedPair, measured_effects
from molattn.inference.measured_pairs import CALIBRATING, TEST, TRAIN, MeasuredTable
from molattn.inference.measured_tables import table_of_run

ARENA = {"caco2_wang": "tdc", "ppbr_az": "tdc", "CHEMBL4005_Ki": "moleculeace"}
TITLES = {
    "esol": "ESOL",
    "lipophilicity": "Lipophilicity",
    "caco2_wang": "Caco-2 (TDC)",
    "ppbr_az": "plasma protein binding (TDC)",
    "CHEMBL4005_Ki": "CHEMBL4005 Ki (MoleculeACE)",
}
LEVEL, MIN_PAIRS = 0.9, 3


def table_of(name: str, arena: Path, lipophilicity: Path, folder: Path) -> tuple[Path, str]:
    """A table of the training molecules of a data set with columns smiles and value, and its target."""
    if name in ("esol", "lipophilicity"):
        return (DATASETS / "esol.csv", "log_solubility") if name == "esol" else (lipophilicity, "log_d")
    if ARENA[name] == "tdc":
        source, smiles, value = arena / "tdc" / name / "train_val.csv", "Drug", "Y"
    else:
        source, smiles, value = arena / "moleculeace" / f"{name}.csv", "smiles", "y [pEC50/pKi]"
    with source.open(newline="", encoding="utf-8") as file:
        rows = [(row[smiles], row[value]) for row in csv.DictReader(file) if row.get("split", "train") == "train"]
    path = folder / f"{name}.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("smiles", "value"), *rows])
    return path, "value"


def measure(table: MeasuredTable) -> dict[str, Any]:
    """The agreement of predicted with measured changes, for a partner that is known and for one that is new."""
    found: dict[str, Any] = {}
    for case, known in (("known", True), ("new", False)):
        measured, predicted, weights, molecules = table.changes((TEST,), known)
        half = table.half_width(known, LEVEL)
        changed = measured != 0
        found[case] = {
            "pairs": len(measured),
            "molecules": molecules,
            "r": float(np.corrcoef(measured, predicted)[0, 1]),
            "sign": float((np.sign(measured) == np.sign(predicted))[changed].mean()),
            "mae": float(np.abs(measured - predicted).mean()),
            "mean_change": float(np.abs(measured).mean()),
            "half_width": half.value,
            "source": half.source,
            "calibrating": table.changes(CALIBRATING, known)[3],
            "coverage": float(np.average(np.abs(measured - predicted) <= half.value, weights=weights)),
        }
    return found | {"rule": measure_rule(table)}


def measure_rule(table: MeasuredTable) -> dict[str, Any]:
    """The mean measured effect of the replacement in training pairs as the prediction, compared with the model."""
    labels = table.splits
    pairs = [p for p in table.pairs if np.isfinite(table.values[[p.first, p.second]]).all()]
    training = [p for p in pairs if labels[p.first] == TRAIN == labels[p.second]]
    effects = measured_effects(training, table.values)
    usable = [p for p in pairs if _is_test(p, labels) and p.transform in effects]
    usable = [p for p in usable if effects[p.transform].count >= MIN_PAIRS]
    ends = np.array([(p.first, p.second) for p in usable])
    measured, model = (np.diff(y[ends], axis=1)[:, 0] for y in (table.values, table.predictions))
    rule = np.array([effects[p.transform].mean for p in usable])
    return {
        "pairs": len(usable),
        "mae_rule": float(np.abs(measured - rule).mean()),
        "mae_model": float(np.abs(measured - model).mean()),
        "r_rule": float(np.corrcoef(measured, rule)[0, 1]),
        "r_model": float(np.corrcoef(measured, model)[0, 1]),
    }


def _is_test(pair: MatchedPair, labels: np.ndarray) -> bool:
    ends = {labels[pair.first], labels[pair.second]}
    return TEST in ends and ends <= {TEST, TRAIN}


def mean(results: list[dict[str, Any]], case: str, key: str) -> float:
    """The mean over the seeds."""
    return float(np.mean([r[case][key] for r in results]))


def write_page(path: Path, results: dict[str, list[dict[str, Any]]], where: dict[str, Any]) -> None:
    """Write the page of the results."""
    cases, rules = [], []
    for name, of_name in results.items():
        for case in ("known", "new"):
            cases.append(
                [
                    TITLES[name] if case == "known" else "",
                    case,
                    f"{mean(of_name, case, 'pairs'):,.0f} ({mean(of_name, case, 'molecules'):,.0f})",
                    f"{mean(of_name, case, 'r'):.2f}",
                    f"{mean(of_name, case, 'sign'):.0%}",
                    f"{mean(of_name, case, 'mean_change'):.2f}",
                    f"{mean(of_name, case, 'mae'):.2f}",
                    f"± {mean(of_name, case, 'half_width'):.2f}",
                    f"{mean(of_name, case, 'coverage'):.0%}",
                ]
            )
        rule = [f"{mean(of_name, 'rule', key):.2f}" for key in ("mae_model", "mae_rule", "r_model", "r_rule")]
        rules.append([TITLES[name], f"{mean(of_name, 'rule', 'pairs'):,.0f}", *rule])
    heads = [
        "data",
        "partner",
        "pairs (molecules)",
        "r",
        "sign",
        "mean change",
        "mean error",
        "90% interval",
        "within it",
    ]
    rule_heads = ["data", "pairs", "error, model", "error, rule", "r, model", "r, rule"]
    seeds = len(next(iter(results.values())))
    path.write_text(
        PAGE.format(
            cases=markdown(heads, cases),
            rules=markdown(rule_heads, rules),
            seeds=seeds,
            machine=describe_machine(where),
            summary=summary(results),
        ),
        encoding="utf-8",
    )


PAGE = """# Predicted and measured changes

{summary}

Two molecules of a table that differ by one substituent are a matched pair: its measured change is known, and the model
predicts one. The pairs here have a molecule of the test set, which the model has not seen. Its partner is a molecule of
the training set ("known"), as where a parent is changed that was measured, or another test molecule ("new").

`python benchmarks/whatif.py ARENA LIPOPHILICITY.csv -o whatif.json --page docs/results/whatif.md`:

{cases}

The models start from the base model nci. Means over {seeds} seeds.
*Sign* is the share of pairs with a measured change whose predicted change has the same sign.
The interval comes from pairs of validation molecules; *within it* gives every test molecule the same weight, as the
interval does. {machine}

- Where a property changes little among similar molecules, as CHEMBL4005 Ki, an interval is wider than most changes:
  the direction of few of them is known.
- Only training molecules of TDC and MoleculeACE are used, split at random into 60% for training, 20% for validation and
  20% for the test. A test molecule has neighbours, as a matched pair must. On unlike molecules the intervals do not
  hold.

## Compared with counting

The mean measured effect of the same replacement in the pairs of the training set, where there are three or more of
them, is a prediction without a model ("rule"). On the same pairs of test molecules, with mean absolute errors of the
change:

{rules}

How to use it: [what to make next](../guide/what_if.md).
"""


def summary(results: dict[str, list[dict[str, Any]]]) -> str:
    """The first sentence of the page."""
    r = [mean(of_name, "known", "r") for of_name in results.values()]
    covered = [np.mean([mean(of_name, c, "coverage") for of_name in results.values()]) for c in ("known", "new")]
    better = sum(mean(of_name, "rule", "mae_model") < mean(of_name, "rule", "mae_rule") for of_name in results.values())
    text = (
        f"On {len(results)} data sets, predicted changes correlate with measured ones by r {min(r):.2f} to "
        f"{max(r):.2f} if one of the two molecules is known. The 90% intervals of "
        f"[`molattn whatif`](../guide/what_if.md) hold {covered[0]:.0%} of the test molecules with a known "
        f"partner and {covered[1]:.0%} of those with a new one. On "
        f"{better} of {len(results)} the model is closer than the mean effect of the same replacement."
    )
    return textwrap.fill(text, 120)


def main() -> None:
    """Train, measure, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("arena", type=Path, help="folder with tdc/ and moleculeace/")
    parser.add_argument("lipophilicity", type=Path, help="the table of Lipophilicity, with smiles and log_d")
    parser.add_argument("--names", nargs="+", default=list(TITLES))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--work", type=Path, default=Path("whatif-runs"), help="folder of the runs; kept runs are not trained again"
    )
    parser.add_argument("-o", "--output", type=Path, required=True, help="all results as JSON")
    parser.add_argument("--page", type=Path, help="the page of the results")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    results: dict[str, list[dict[str, Any]]] = {}
    for name in arguments.names:
        results[name] = []
        table, target = table_of(name, arguments.arena, arguments.lipophilicity, arguments.work)
        for seed in range(arguments.seeds):
            folder = arguments.work / f"{name}-{seed}"
            if not (folder / "metrics.json").is_file():
                split = ["--split", "random", "--split-sizes", "0.6", "0.2", "0.2", "--seed", seed]
                train = ["train", table, "--target-columns", target, "-o", folder, "--base", "nci", *split]
                run([*MOLATTN, *train, "--accelerator", "cpu", "--quiet", "--force"])
            found = table_of_run(molattn.load(folder), target)
            assert found is not None
            results[name].append(measure(found))
            print(f"{name}, seed {seed}: {results[name][-1]}", file=sys.stderr)
    where = machine(("torch", "rdkit"), 1)
    save_results(arguments.output, "whatif", {"seeds": arguments.seeds, "level": LEVEL}, results, where)
    if arguments.page:
        write_page(arguments.page, load_results(arguments.output), where)


if __name__ == "__main__":
    main()
