"""Do attributions predict measured changes? Matched pairs of test molecules, for each attribution method.

    python benchmarks/attribution_pairs.py esol=datasets/esol.csv:log_solubility -o pairs.json
    python benchmarks/attribution_pairs.py --page docs/results/attribution_pairs.md

Each argument is NAME=TABLE:TARGET. A default model is trained on 60% of the molecules, and 30% are test molecules. Two
of them that differ only in what one acyclic single bond joins to their common core, R and R' (hydrogen for one of
them), of at most `MAX_ATOMS` atoms and half of the molecule, are a matched pair. The attribution method predicts the
change from R' to R by the sum of its values on R, minus that on R'; measured is the change of the target; and the model
has a change of its own. No method computes its values from pairs of molecules of the table.

For each method: Pearson r with the measured change, with a percentile bootstrap interval over cores (1,000 samples);
the share of pairs with the measured sign, of those whose change is above 0.1 standard deviations of the target; and r
with the change of the model. The row "model" is the change of the predictions themselves.
"""

import argparse
import json
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rdkit import Chem
from report import describe_machine, machine, markdown, save_results

import molattn
from molattn.errors import MolattnError

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "attribution_pairs.json"
METHODS = ("fragment-shapley", "additive", "occlusion", "integrated-gradients", "cam", "grad-attention", "random")
MAX_ATOMS = 8
MAX_PAIRS_OF_CORE = 20
MIN_CHANGE = 0.1


class Substituent(NamedTuple):
    """A substituent R of a molecule: the index of the molecule, and the atoms of R; none for hydrogen."""

    molecule: int
    atoms: tuple[int, ...]


def substituents(smiles: str) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """For each acyclic single bond: the core with a dummy atom, R, and the atoms of R."""
    mol = Chem.MolFromSmiles(smiles)
    n = mol.GetNumAtoms()
    for bond in mol.GetBonds():
        if bond.IsInRing() or bond.GetBondType() != Chem.BondType.SINGLE:
            continue
        cut = Chem.FragmentOnBonds(mol, [bond.GetIdx()], dummyLabels=[(0, 0)])
        parts = Chem.GetMolFrags(cut)
        mols = Chem.GetMolFrags(cut, asMols=True)
        if len(parts) != 2:  # of a salt
            continue
        for r, core in ((0, 1), (1, 0)):
            atoms = tuple(i for i in parts[r] if i < n)
            if len(atoms) <= min(MAX_ATOMS, n // 2):
                yield Chem.MolToSmiles(mols[core]), Chem.MolToSmiles(mols[r]), atoms


def matched_pairs(smiles: list[str]) -> list[tuple[str, Substituent, Substituent]]:
    """The pairs: the core and a substituent of each molecule."""
    by_core: dict[str, dict[str, Substituent]] = defaultdict(dict)
    whole = {Chem.CanonSmiles(s): i for i, s in enumerate(smiles)}
    for i, text in enumerate(smiles):
        for core, r, atoms in substituents(text):
            by_core[core].setdefault(r, Substituent(i, atoms))
    for core, found in by_core.items():
        with_hydrogen = Chem.MolToSmiles(Chem.RemoveHs(Chem.MolFromSmiles(core.replace("*", "[H]"))))
        if with_hydrogen in whole:
            found["[H]"] = Substituent(whole[with_hydrogen], ())
    pairs = []
    for core, found in sorted(by_core.items()):
        every = [(core, a, b) for a, b in combinations(found.values(), 2) if a.molecule != b.molecule]
        order = np.random.default_rng(0).permutation(len(every))[:MAX_PAIRS_OF_CORE]
        pairs += [every[k] for k in order]
    return pairs


def measure(table: str, target: str, epochs: int | None) -> dict[str, Any]:
    """The changes of every pair, measured and by every method."""
    with tempfile.TemporaryDirectory() as folder:
        options: dict[str, Any] = {} if epochs is None else {"epochs": epochs}
        run = molattn.train(
            table,
            target_columns=[target],
            split_sizes=(0.6, 0.1, 0.3),
            base="nci",
            output_dir=Path(folder) / "run",
            accelerator="cpu",
            quiet=True,
            **options,
        )
        predictor = molattn.load(run.folder)
        import csv

        with (run.folder / "predictions.csv").open(newline="", encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if row["split"] == "test"]
    smiles = [row["smiles"] for row in rows]
    true = np.array([float(row[target]) for row in rows])
    predicted = predictor.predict(smiles)
    pairs = matched_pairs(smiles)
    involved = sorted({s.molecule for _, a, b in pairs for s in (a, b)})
    change = {"measured": [], "model": []}
    for _, a, b in pairs:
        change["measured"].append(float(true[a.molecule] - true[b.molecule]))
        change["model"].append(float(predicted[a.molecule] - predicted[b.molecule]))
    rng = np.random.default_rng(0)
    for method in METHODS:
        try:
            values = {
                i: rng.normal(size=Chem.MolFromSmiles(smiles[i]).GetNumAtoms())
                if method == "random"
                else predictor.attributions(smiles[i], method=method).values
                for i in involved
            }
        except MolattnError:
            continue
        change[method] = [
            float(values[a.molecule][list(a.atoms)].sum() - values[b.molecule][list(b.atoms)].sum())
            for _, a, b in pairs
        ]
    return {
        "test_molecules": len(smiles),
        "rmse": float(np.sqrt(np.mean((predicted - true) ** 2))),
        "std": float(true.std()),
        "cores": [core for core, _, _ in pairs],
        "change": change,
    }


def interval(x: np.ndarray, y: np.ndarray, cores: list[str]) -> tuple[float, float]:
    """The 95% bootstrap interval of r over samples of cores."""
    groups: dict[str, list[int]] = defaultdict(list)
    for i, core in enumerate(cores):
        groups[core].append(i)
    members, rng, found = list(groups.values()), np.random.default_rng(0), []
    for _ in range(1000):
        chosen = [i for k in rng.integers(len(members), size=len(members)) for i in members[k]]
        found.append(np.corrcoef(x[chosen], y[chosen])[0, 1])
    low, high = np.nanpercentile(found, [2.5, 97.5])
    return float(low), float(high)


def rows_of(result: dict[str, Any]) -> list[list[str]]:
    """A row of the table for each method."""
    change = {name: np.array(values) for name, values in result["change"].items()}
    measured, model = change["measured"], change["model"]
    large = np.abs(measured) > MIN_CHANGE * result["std"]
    rows = []
    for name, values in change.items():
        if name == "measured":
            continue
        low, high = interval(values, measured, result["cores"])
        r = np.corrcoef(values, measured)[0, 1]
        sign = np.mean(np.sign(values[large]) == np.sign(measured[large]))
        own = "-" if name == "model" else f"{np.corrcoef(values, model)[0, 1]:.2f}"
        rows.append([name, f"{r:.2f}", f"{low:.2f} to {high:.2f}", f"{sign:.0%}", own])
    return rows


def tables(content: dict[str, Any]) -> str:
    """The tables of all data sets."""
    parts = []
    for name, result in content["results"].items():
        pairs, cores = result["pairs"], result["cores"]
        parts.append(
            f"## {name}\n\n{pairs:,} pairs with {cores:,} cores among {result['test_molecules']:,} test molecules; "
            f"test RMSE {result['rmse']:.3f}, standard deviation {result['std']:.2f}.\n\n"
            + markdown(["method", "r, measured", "95% interval", "measured sign", "r, model"], result["rows"])
        )
    return "\n\n".join(parts)


def main() -> None:
    """Measure all tables, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", metavar="NAME=TABLE:TARGET")
    parser.add_argument("--epochs", type=int, help="of every training; the default of molattn train if not given")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS)
    parser.add_argument("--page", type=Path, help="the Markdown file to write")
    arguments = parser.parse_args()
    if arguments.tables:
        results = {}
        for text in arguments.tables:
            name, _, rest = text.partition("=")
            table, _, target = rest.rpartition(":")
            found = measure(table, target, arguments.epochs)
            # No value and no structure of a table that is not part of the project is kept.
            results[name] = {key: found[key] for key in ("test_molecules", "rmse", "std")} | {
                "pairs": len(found["cores"]),
                "cores": len(set(found["cores"])),
                "rows": rows_of(found),
            }
            print(markdown(["method", "r", "interval", "sign", "model"], results[name]["rows"]), flush=True)
        save_results(arguments.output, "attribution_pairs", {}, results, machine(("torch", "rdkit"), 1))
    content = json.loads(arguments.output.read_text())
    if arguments.page:
        arguments.page.write_text(PAGE.format(tables=tables(content), machine=describe_machine(content["machine"])))


PAGE = """# Attributions and measured changes

Made by `python benchmarks/attribution_pairs.py --page docs/results/attribution_pairs.md`; its help describes the
measure. Two test molecules that differ in one substituent are a matched pair, and an attribution predicts how much the
property differs between them. Measured values decide which method is right. Models start from the base model nci.

{tables}

{machine}
"""


if __name__ == "__main__":
    main()
