"""Start-up time of commands: `molattn predict` of one molecule relative to `import torch`.

    python benchmarks/startup.py                          # molattn and chemprop, seven rounds
    python benchmarks/startup.py --peers FOLDER --rounds 15 -o startup.json
    python benchmarks/startup.py --no-peers

Every command is a process of its own on one thread; each round runs all commands one after another. The table has the
CPU time of the process and the wall time, with the ratio to `import torch` in the same environment and round: medians
and quartiles over rounds. A small model of each project is trained first.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from commands import MOLATTN, CompletedCommand, run, train_chemprop
from peers import FOLDER, python_of
from report import describe_machine, format_spread, machine, markdown, save_results, spread


def molattn_commands(folder: Path) -> dict[str, Sequence[object]]:
    """Commands of molattn with a model that is trained first."""
    model, table, output = folder / "run", folder / "one.csv", folder / "out.csv"
    run([*MOLATTN, "train", "--dataset", "esol", "--epochs", "2", "-q", "-o", model])
    table.write_text("smiles\nCCO\n")
    return {
        "import torch": (sys.executable, "-c", "import torch"),
        "import molattn": (sys.executable, "-c", "import molattn"),
        "molattn --version": (*MOLATTN, "--version"),
        "molattn predict --help": (*MOLATTN, "predict", "--help"),
        "molattn train --help": (*MOLATTN, "train", "--help"),
        "molattn predict RUN --smiles CCO": (*MOLATTN, "predict", model, "--smiles", "CCO"),
        "molattn predict RUN one.csv -o out.csv": (*MOLATTN, "predict", model, table, "-o", output, "--force"),
    }


def chemprop_commands(folder: Path, peers: Path) -> dict[str, Sequence[object]]:
    """The corresponding commands of chemprop."""
    chemprop, model = train_chemprop(folder, peers)
    predict = (chemprop, "predict", "-i", folder / "one.csv", "-s", "smiles", "--model-paths", model)
    return {
        "its import torch": (python_of("chemprop", peers), "-c", "import torch"),
        "chemprop predict --help": (chemprop, "predict", "--help"),
        "chemprop predict of one molecule": (*predict, "--accelerator", "cpu", "-o", folder / "theirs.csv"),
    }


def main() -> None:
    """Time all commands in turn, print the table and save the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--peers", type=Path, default=FOLDER, help="folder with the environments of other projects")
    parser.add_argument("--no-peers", action="store_true", help="only molattn")
    parser.add_argument("-o", "--output", type=Path, default=Path("startup.json"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        projects = [molattn_commands(Path(name))]
        if not options.no_peers:
            projects.append(chemprop_commands(Path(name), options.peers))
        times: dict[str, list[CompletedCommand]] = {title: [] for project in projects for title in project}
        for project in projects:
            for command in project.values():
                run(command)  # reads the files from disk into the cache
        for _ in range(options.rounds):
            for project in projects:
                for title, command in project.items():
                    times[title].append(run(command))
    rows, results = [], {}
    for project in projects:
        reference = times[next(iter(project))]
        for title in project:
            cpu, wall = spread(t.cpu for t in times[title]), spread(t.wall for t in times[title])
            ratios = spread(t.cpu / f.cpu for t, f in zip(times[title], reference, strict=True))
            walls = spread(t.wall / f.wall for t, f in zip(times[title], reference, strict=True))
            results[title] = {"cpu": cpu, "wall": wall, "cpu_ratio": ratios, "wall_ratio": walls}
            rows.append(
                (f"`{title}`", format_spread(cpu), format_spread(ratios), format_spread(wall), format_spread(walls))
            )
    where = machine(("torch", "rdkit", "typer"))
    print(markdown(("command", "CPU s", "times `import torch`", "wall s", "times `import torch`"), rows))
    print(f"\nMedians and quartiles of {options.rounds} rounds. {describe_machine(where)}")
    save_results(options.output, "startup", {"rounds": options.rounds}, results, where)


if __name__ == "__main__":
    main()
