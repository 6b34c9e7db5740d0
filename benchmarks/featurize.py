"""Featurization speed of molattn and other packages, relative to `Chem.MolFromSmiles` in the same process.

    python benchmarks/featurize.py                     # about ten minutes, more for the first installation
    python benchmarks/featurize.py --rounds 3 --ways molattn
    python benchmarks/featurize.py --ways molattn --by-brackets    # the cost of validating brackets
    python benchmarks/featurize.py --ways molattn --csv drugs.csv --by-stereo    # with a table of molecules

Each method runs in the environment of its package, with one process, one thread and default settings: molattn with and
without a C compiler, PyG's `from_smiles`, and chemprop's Python and C++ featurizers. In every round, all steps of a
method read all molecules once, in random order of the steps; a ratio is that of two steps of one round. Molecules that
RDKit cannot read are excluded. `--by-brackets` separates molecules with and without bracket atoms, `--by-stereo` those
with and without stereochemistry in the SMILES. `--csv` adds the molecules of a table, such as drug-like ones. The
results are written to `featurize.json`, and tables are printed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from commands import DATASETS
from peers import FOLDER, python_of
from rdkit import Chem, rdBase
from report import describe_machine, format_spread, machine, markdown, save_results, spread
from tables import nci_smiles, read_rows

HERE = Path(__file__).parent

METHODS = {
    "rdkit": ("", "rdkit", True),
    "molattn": ("", "molattn", True),
    "molattn, no compiler": ("", "molattn", False),
    "PyG": ("pyg", "pyg", True),
    "chemprop": ("chemprop", "chemprop", True),
    "chemprop, C++": ("chemprop", "chemprop_cuik", True),
}
"""The environment in `peers.py`, the name in `featurize_ways.py`, and whether C code is compiled."""


def read_molecules(table: Path | None = None, column: str = "smiles") -> dict[str, list[str]]:
    """The SMILES of ESOL, of the NCI molecules and of a table, without those that RDKit cannot read."""
    sets = {"ESOL": [row["smiles"] for row in read_rows(DATASETS / "esol.csv")], "NCI": nci_smiles()}
    if table is not None:
        sets[table.stem] = [row[column] for row in read_rows(table)]
    rdBase.DisableLog("rdApp.*")
    return {name: [text for text in smiles if Chem.MolFromSmiles(text)] for name, smiles in sets.items()}


def by_stereo(sets: dict[str, list[str]]) -> dict[str, list[str]]:
    """Each set of molecules divided into those with and without stereochemistry in the SMILES."""
    divided: dict[str, list[str]] = {}
    for name, smiles in sets.items():
        for text in smiles:
            has_stereo = not {"@", "/", "\\"}.isdisjoint(text)
            divided.setdefault(f"{name}, {'stereo' if has_stereo else 'no stereo'}", []).append(text)
    return divided


def by_brackets(sets: dict[str, list[str]]) -> dict[str, list[str]]:
    """All molecules, divided into those with and without bracket atoms."""
    smiles = [text for texts in sets.values() for text in texts]
    return {
        "no brackets": [text for text in smiles if "[" not in text],
        "with brackets": [text for text in smiles if "[" in text],
    }


def measure(method: str, file: Path, rounds: int, peers: Path) -> dict[str, list[float]]:
    """Microseconds of CPU per molecule for each step and round."""
    peer, function, is_compiled = METHODS[method]
    python = str(python_of(peer, peers)) if peer else sys.executable
    environment = {**os.environ, "OMP_NUM_THREADS": "1"} | ({} if is_compiled else {"MOLATTN_COMPILE": "0"})
    if not peer:
        environment["PYTHONPATH"] = str(HERE.parent)
    else:
        environment.pop("PYTHONPATH", None)
    command = [python, str(HERE / "featurize_ways.py"), function, str(file), str(rounds)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{method} fails:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--ways", nargs="*", default=list(METHODS), choices=list(METHODS))
    division = parser.add_mutually_exclusive_group()
    division.add_argument("--by-brackets", action="store_true", help="separate molecules with and without brackets")
    division.add_argument("--by-stereo", action="store_true", help="separate molecules with and without stereo")
    parser.add_argument("--csv", type=Path, help="a table of further molecules")
    parser.add_argument("--column", default="smiles", help="its column of SMILES")
    parser.add_argument("--peers", type=Path, default=FOLDER, help="folder with the environments of other projects")
    parser.add_argument("-o", "--output", type=Path, default=Path("featurize.json"))
    options = parser.parse_args()
    results: dict[str, Any] = {}
    sets = read_molecules(options.csv, options.column)
    if options.by_brackets or options.by_stereo:
        sets = by_brackets(sets) if options.by_brackets else by_stereo(sets)
    with tempfile.TemporaryDirectory() as folder:
        for name, smiles in sets.items():
            file = Path(folder) / f"{name}.smi"
            file.write_text("\n".join(smiles))
            for method in options.ways:
                print(f"{name}: {method}", file=sys.stderr, flush=True)
                times = measure(method, file, options.rounds, options.peers)
                for step, values in times.items():
                    ratios = [value / parse for value, parse in zip(values, times["parse"], strict=True)]
                    found = results.setdefault(method, {}).setdefault(step, {})
                    found[name] = {"microseconds": spread(values), "ratio": spread(ratios)}
    where = machine(("rdkit", "numpy"))
    save_results(
        options.output,
        "featurize",
        {"rounds": options.rounds, "molecules": {n: len(s) for n, s in sets.items()}},
        results,
        where,
    )
    columns = ["method", *(f"{name}, {unit}" for name in sets for unit in ("us per molecule", "times its parse"))]

    def row(title: str, found: dict[str, Any]) -> list[str]:
        figures = ((found[name]["microseconds"], found[name]["ratio"]) for name in sets)
        return [title, *(cell for us, ratio in figures for cell in (f"{us['median']:.0f}", format_spread(ratio)))]

    rows = [
        row(f"{method}: {step}", found)
        for method, steps in results.items()
        for step, found in steps.items()
        if step == list(steps)[-1] or step == "molecule_graph" or (method == "rdkit" and step == "parse")
    ]
    print(markdown(columns, rows), end="\n\n")
    if "molattn" in results:
        print(markdown(columns, [row(step, found) for step, found in results["molattn"].items()]), end="\n\n")
        if options.by_brackets:
            step = results["molattn"]["brackets alone"]
            costs = (f"{100 * step[name]['ratio']['median']:.1f}% ({name})" for name in sets)
            print(f"Time of validating brackets relative to `Chem.MolFromSmiles`: {', '.join(costs)}.", end="\n\n")
    counts = " and ".join(f"{len(smiles):,} of {name}" for name, smiles in sets.items())
    print(f"Medians and quartiles of {options.rounds} rounds over {counts}; CPU time. {describe_machine(where)}")


if __name__ == "__main__":
    main()
