"""How long a command takes before it works: `molattn predict` of one molecule beside `import torch` alone.

    python benchmarks/startup.py                          # molattn and chemprop, seven rounds
    python benchmarks/startup.py --peers FOLDER --rounds 15 -o startup.json
    python benchmarks/startup.py --no-peers

Every command is a process of its own, one after another in rounds that go through all of them, one thread each. What
counts is the CPU time of the process; wall time is next to it. The ratio is to `import torch` of the same
environment in the same round, and its spread is over the rounds. A small model is trained first, for each side.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from peers import FOLDER, python_of
from processes import Took, took
from report import in_words, machine, markdown, save, shown, spread

MOLATTN = (sys.executable, "-c", "from molattn.cli.main import main; main()")
ESOL = Path(__file__).resolve().parents[1] / "datasets" / "esol.csv"


def ours(folder: Path) -> dict[str, Sequence[object]]:
    """Commands of molattn, with a model that is trained here."""
    run, table, out = folder / "run", folder / "one.csv", folder / "out.csv"
    subprocess.run([*MOLATTN, "train", "--dataset", "esol", "--epochs", "2", "-q", "-o", run], check=True)
    table.write_text("smiles\nCCO\n")
    return {
        "import torch": (sys.executable, "-c", "import torch"),
        "import molattn": (sys.executable, "-c", "import molattn"),
        "molattn --version": (*MOLATTN, "--version"),
        "molattn predict --help": (*MOLATTN, "predict", "--help"),
        "molattn train --help": (*MOLATTN, "train", "--help"),
        "molattn predict RUN --smiles CCO": (*MOLATTN, "predict", run, "--smiles", "CCO"),
        "molattn predict RUN one.csv -o out.csv": (*MOLATTN, "predict", run, table, "-o", out, "--force"),
    }


def chemprops(folder: Path, peers: Path) -> dict[str, Sequence[object]]:
    """The same of chemprop."""
    python = python_of("chemprop", peers)
    chemprop, run, table = python.with_name("chemprop"), folder / "chemprop", folder / "one.csv"
    # Three epochs are the fewest that it takes.
    train = [chemprop, "train", "-i", ESOL, "-s", "smiles", "--epochs", "3", "--accelerator", "cpu", "-o", run]
    subprocess.run(list(map(str, train)), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    predict = (chemprop, "predict", "-i", table, "-s", "smiles", "--model-paths", run / "model_0" / "best.pt")
    return {
        "its import torch": (python, "-c", "import torch"),
        "chemprop predict --help": (chemprop, "predict", "--help"),
        "chemprop predict of one molecule": (*predict, "--accelerator", "cpu", "-o", folder / "theirs.csv"),
    }


def main() -> None:
    """Time all commands in turn, print the table and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--peers", type=Path, default=FOLDER, help="where the environments of the peers lie")
    parser.add_argument("--no-peers", action="store_true", help="molattn alone")
    parser.add_argument("-o", "--output", type=Path, default=Path("startup.json"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        sides = [ours(Path(name))] + ([] if options.no_peers else [chemprops(Path(name), options.peers)])
        times: dict[str, list[Took]] = {what: [] for side in sides for what in side}
        for side in sides:
            for command in side.values():
                took(command)  # what is read from disk is in memory from here on
        for _ in range(options.rounds):
            for side in sides:
                for what, command in side.items():
                    times[what].append(took(command))
    rows, results = [], {}
    for side in sides:
        floor = times[next(iter(side))]
        for what in side:
            cpu, wall = spread(t.cpu for t in times[what]), spread(t.wall for t in times[what])
            ratios = spread(t.cpu / f.cpu for t, f in zip(times[what], floor, strict=True))
            walls = spread(t.wall / f.wall for t, f in zip(times[what], floor, strict=True))
            results[what] = {"cpu": cpu, "wall": wall, "cpu_ratio": ratios, "wall_ratio": walls}
            rows.append((f"`{what}`", shown(cpu), shown(ratios), shown(wall), shown(walls)))
    where = machine(("torch", "rdkit", "typer"))
    print(markdown(("command", "CPU s", "times `import torch`", "wall s", "times `import torch`"), rows))
    print(f"\nMedians and quartiles of {options.rounds} rounds. {in_words(where)}")
    save(options.output, "startup", {"rounds": options.rounds}, results, where)


if __name__ == "__main__":
    main()
