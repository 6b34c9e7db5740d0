"""From SMILES to graphs: ours and others', as ratios to bare `Chem.MolFromSmiles` in the same process.

    python benchmarks/featurize.py                     # some ten minutes, the first time more for the peers
    python benchmarks/featurize.py --rounds 3 --ways molattn
    python benchmarks/featurize.py --ways molattn --by-brackets    # what the look at brackets costs
    python benchmarks/featurize.py --ways molattn --csv drugs.csv --by-stereo    # of molecules of one's own, too

Each way runs in the environment of its package, with one process and one thread, at its own defaults: ours with
and without a C compiler, PyG's `from_smiles`, chemprop's featurizer and its C++ one. In every round all steps of a way
read all molecules once, in another order than in the round before; a ratio is that of two steps of one round. Only
molecules that RDKit can read are among them. With `--by-brackets` those with atoms in brackets, and those without, are
apart; with `--by-stereo` those whose SMILES marks stereochemistry, and those whose does not. `--csv` adds a table of
one's own with a column of SMILES, of drug-like molecules say. It writes `featurize.json` and prints the tables for
README.md.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from peers import FOLDER, python_of
from rdkit import Chem, RDConfig, RDLogger
from report import in_words, machine, markdown, save, shown, spread

HERE = Path(__file__).parent

# In words: of which environment, the way in featurize_ways.py, whether C may be compiled.
CONTENDERS = {
    "rdkit": ("", "rdkit", True),
    "molattn": ("", "molattn", True),
    "molattn, no compiler": ("", "molattn", False),
    "PyG": ("pyg", "pyg", True),
    "chemprop": ("chemprop", "chemprop", True),
    "chemprop, C++": ("chemprop", "chemprop_cuik", True),
}


def molecules(own: Path | None = None, column: str = "smiles") -> dict[str, list[str]]:
    """ESOL, and the NCI molecules that come with RDKit; those of one's own table after them."""
    nci = (Path(RDConfig.RDDataDir) / "NCI" / "first_5K.smi").read_text(encoding="utf-8").splitlines()
    esol = (HERE.parent / "datasets" / "esol.csv").read_text(encoding="utf-8").splitlines()[1:]
    texts = {"ESOL": [line.split(",")[0] for line in esol], "NCI": [line.split("\t")[0] for line in nci if line]}
    if own is not None:
        with own.open(newline="", encoding="utf-8") as file:
            texts[own.stem] = [row[column] for row in csv.DictReader(file)]
    RDLogger.DisableLog("rdApp.*")
    return {name: [text for text in texts if Chem.MolFromSmiles(text)] for name, texts in texts.items()}


def by_stereo(sets: dict[str, list[str]]) -> dict[str, list[str]]:
    """The same molecules, each set by whether they have marks of stereochemistry."""

    def marked(text: str) -> bool:
        return not {"@", "/", "\\"}.isdisjoint(text)

    apart: dict[str, list[str]] = {}
    for name, texts in sets.items():
        apart[f"{name}, no stereo"] = [text for text in texts if not marked(text)]
        apart[f"{name}, stereo"] = [text for text in texts if marked(text)]
    return {name: texts for name, texts in apart.items() if texts}


def by_brackets(sets: dict[str, list[str]]) -> dict[str, list[str]]:
    """The same molecules, by whether they have atoms in brackets."""
    every = [text for texts in sets.values() for text in texts]
    return {
        "no brackets": [text for text in every if "[" not in text],
        "with brackets": [text for text in every if "[" in text],
    }


def measured(contender: str, file: Path, rounds: int, peers: Path) -> dict[str, list[float]]:
    """Microseconds of CPU per molecule, by step and round."""
    peer, way, compiled = CONTENDERS[contender]
    python = str(python_of(peer, peers)) if peer else sys.executable
    environment = {**os.environ, "OMP_NUM_THREADS": "1"} | ({} if compiled else {"MOLATTN_COMPILE": "0"})
    if not peer:
        environment["PYTHONPATH"] = str(HERE.parent)
    else:
        environment.pop("PYTHONPATH", None)
    command = [python, str(HERE / "featurize_ways.py"), way, str(file), str(rounds)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{contender} fails:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--ways", nargs="*", default=list(CONTENDERS), choices=list(CONTENDERS))
    apart = parser.add_mutually_exclusive_group()
    apart.add_argument("--by-brackets", action="store_true", help="apart: molecules with brackets, and without")
    apart.add_argument("--by-stereo", action="store_true", help="apart: molecules with marks of stereo, and without")
    parser.add_argument("--csv", type=Path, help="a table of molecules, in addition to the others")
    parser.add_argument("--column", default="smiles", help="its column of SMILES")
    parser.add_argument("--peers", type=Path, default=FOLDER, help="where the environments of others lie")
    parser.add_argument("-o", "--output", type=Path, default=Path("featurize.json"))
    options = parser.parse_args()
    results: dict[str, Any] = {}
    sets = molecules(options.csv, options.column)
    if options.by_brackets or options.by_stereo:
        sets = by_brackets(sets) if options.by_brackets else by_stereo(sets)
    with tempfile.TemporaryDirectory() as folder:
        for name, smiles in sets.items():
            file = Path(folder) / f"{name}.smi"
            file.write_text("\n".join(smiles))
            for contender in options.ways:
                print(f"{name}: {contender}", file=sys.stderr, flush=True)
                times = measured(contender, file, options.rounds, options.peers)
                for step, values in times.items():
                    ratios = [value / parse for value, parse in zip(values, times["parse"], strict=True)]
                    found = results.setdefault(contender, {}).setdefault(step, {})
                    found[name] = {"microseconds": spread(values), "ratio": spread(ratios)}
    where = machine(("rdkit", "numpy"))
    save(
        options.output,
        "featurize",
        {"rounds": options.rounds, "molecules": {n: len(s) for n, s in sets.items()}},
        results,
        where,
    )
    columns = ["way", *(f"{name}, {what}" for name in sets for what in ("us per molecule", "times its parse"))]

    def row(title: str, found: dict[str, Any]) -> list[str]:
        figures = ((found[name]["microseconds"], found[name]["ratio"]) for name in sets)
        return [title, *(cell for us, ratio in figures for cell in (f"{us['median']:.0f}", shown(ratio)))]

    whole = [
        row(f"{contender}: {step}", found)
        for contender, steps in results.items()
        for step, found in steps.items()
        if step == list(steps)[-1] or step == "molecule_graph" or (contender == "rdkit" and step == "parse")
    ]
    print(markdown(columns, whole), end="\n\n")
    if "molattn" in results:
        print(markdown(columns, [row(step, found) for step, found in results["molattn"].items()]), end="\n\n")
        if options.by_brackets:
            look = results["molattn"]["brackets alone"]
            costs = (f"{100 * look[name]['ratio']['median']:.1f}% ({name})" for name in sets)
            print(f"The look at brackets takes, of the time of `Chem.MolFromSmiles`: {', '.join(costs)}.", end="\n\n")
    counts = " and ".join(f"{len(smiles):,} of {name}" for name, smiles in sets.items())
    print(f"Medians and quartiles of {options.rounds} rounds over {counts}; CPU time. {in_words(where)}")


if __name__ == "__main__":
    main()
