"""The speed of the libraries in a wheel, compared with those built for this processor and with plain torch.

    python benchmarks/shipped_libraries.py
    python benchmarks/shipped_libraries.py --rounds 40 -o shipped.json

Builds the libraries of a wheel, and starts a process for each way that this processor can run. In each round every
process does the same work, in random order; a ratio is formed within a round. CPU time, one thread.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from report import describe_machine, format_spread, machine, markdown, save_results, spread

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools" / "release"))

HERE = "built here"
WAYS = {
    HERE: {"MOLATTN_COMPILE": "", "MOLATTN_MARCH": ""},
    "shipped, x86-64-v4": {"MOLATTN_COMPILE": "shipped", "MOLATTN_MARCH": "x86-64-v4"},
    "shipped, x86-64-v3": {"MOLATTN_COMPILE": "shipped", "MOLATTN_MARCH": "x86-64-v3"},
    "shipped, armv8.2-a": {"MOLATTN_COMPILE": "shipped", "MOLATTN_MARCH": "armv8.2-a"},
    "plain torch": {"MOLATTN_COMPILE": "0"},
}
"""The environment of each way."""


def work() -> dict[str, Callable[[], object]]:
    """What is timed: functions by name."""
    import torch
    from commands import DATASETS
    from tables import read_rows
    from torch.nn.functional import mse_loss

    from molattn.attention import EdgeTerms, PaddedGraphLayout, attend
    from molattn.chem import MoleculeGraph, featurize
    from molattn.graph import TensorDotConv
    from molattn.models.config import GraphModelConfig
    from molattn.models.graph_model import GraphModel

    torch.set_num_threads(1)
    torch.manual_seed(0)
    smiles = [row["smiles"] for row in read_rows(DATASETS / "splits" / "esol-random0.csv")][:512]
    molecules = sorted(
        (molecule for molecule in featurize(smiles) if isinstance(molecule, MoleculeGraph)), key=lambda m: m.num_atoms
    )
    model = GraphModel(GraphModelConfig()).train()
    batches = [model.collate(molecules[i : i + 64]) for i in range(0, len(molecules), 64)]

    def train() -> None:
        for batch in batches:
            y = model(batch).float()
            mse_loss(y, torch.zeros_like(y)).backward()

    def predict() -> None:
        with torch.inference_mode():
            for batch in batches:
                model(batch)

    # Complete graphs of 24 atoms, as an edge list, and padded with edge features.
    num_graphs, n, c = 32, 24, 128
    first = torch.arange(0, num_graphs * n, n).view(-1, 1, 1)
    receiver, sender = (first + torch.arange(n).view(shape) for shape in ((1, n, 1), (1, 1, n)))
    edge_index = torch.stack([x.expand(num_graphs, n, n).reshape(-1) for x in (sender, receiver)])
    x = torch.randn(num_graphs * n, c, requires_grad=True)
    conv = TensorDotConv(c, c // 8, heads=8)
    q, k, v = (torch.randn(num_graphs, 8, n, 16, requires_grad=True) for _ in range(3))
    layout = PaddedGraphLayout(torch.arange(n) < torch.randint(n // 2, n + 1, (num_graphs, 1)))
    w_ke, w_ve = (torch.randn(8, 16, 8, requires_grad=True) for _ in range(2))
    edges = EdgeTerms(torch.randn(num_graphs, n, n, 8), w_ke, w_ve)

    return {
        "training step of the default model": train,
        "prediction of the default model": predict,
        "reading SMILES": lambda: featurize(smiles),
        "attention over edge lists, with gradient": lambda: conv(x, edge_index).sum().backward(),
        "attention over padded graphs, with gradient": lambda: attend(q, k, v, layout, edges=edges).sum().backward(),
    }


def serve(folder: Path) -> None:
    """Do all work once for each line of the standard input, and print the CPU seconds of each as JSON."""
    from molattn.chem.binary import load
    from molattn.kernels import describe_kernels, shipped

    shipped.FOLDER = folder
    todo = work()
    print(json.dumps([describe_kernels(), load().origin]), flush=True)
    for line in sys.stdin:
        seconds = {}
        for name in random.sample([*todo], len(todo)):
            start = time.process_time()
            for _ in range(int(line)):
                todo[name]()
            seconds[name] = (time.process_time() - start) / int(line)
        print(json.dumps(seconds), flush=True)


def measure(folder: Path, rounds: int) -> tuple[dict[str, list[dict[str, float]]], dict[str, list[str]]]:
    """The seconds of each way in each round, and where each way has its libraries from."""
    processes: dict[str, subprocess.Popen[str]] = {}
    found: dict[str, list[str]] = {}
    try:
        for name, environment in WAYS.items():
            process = processes[name] = subprocess.Popen(
                [sys.executable, __file__, "--serve", str(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, **environment, "OMP_NUM_THREADS": "1"},
            )
            found[name] = json.loads(_answer(process))
            wanted = {HERE: "yes, compiled", "plain torch": "no, "}.get(name, "yes, shipped")
            if not found[name][0].startswith(wanted):
                print(f"{name} is left out: {found[name][0]}", file=sys.stderr)
                _close(processes.pop(name))
        seconds: dict[str, list[dict[str, float]]] = {name: [] for name in processes}
        for i in range(rounds + 1):
            for name in random.sample([*processes], len(processes)):
                answer = json.loads(_answer(processes[name], "1\n" if i == 0 else "3\n"))
                if i:  # the first round warms up
                    seconds[name].append(answer)
        return seconds, {name: found[name] for name in processes}
    finally:
        for process in processes.values():
            _close(process)


def _answer(process: "subprocess.Popen[str]", line: str = "") -> str:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(line)
    process.stdin.flush()
    return process.stdout.readline()


def _close(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    process.stdin.close()
    process.wait()


def main() -> None:
    """Time the ways in turns, print the table and save the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("-o", "--output", type=Path, default=Path("shipped.json"))
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        serve(options.serve)
        return
    from libraries import build_libraries

    with tempfile.TemporaryDirectory() as folder:
        build_libraries(Path(folder), ["gcc"])
        seconds, found = measure(Path(folder), options.rounds)
    results: dict[str, Any] = {"from": found, "seconds": seconds}
    where = machine(("torch", "rdkit"))
    save_results(options.output, "shipped", vars(options), results, where)
    others = [name for name in seconds if name != HERE]
    rows = []
    for work_name in seconds[HERE][0]:
        milliseconds = spread(1000 * round_[work_name] for round_ in seconds[HERE])
        ratios = [
            spread(there[work_name] / here[work_name] for there, here in zip(seconds[name], seconds[HERE], strict=True))
            for name in others
        ]
        rows.append([work_name, format_spread(milliseconds, 1), *(format_spread(ratio) for ratio in ratios)])
    print(markdown(["", f"{HERE}, ms", *(f"{name}: ratio" for name in others)], rows))
    print(f"\nMedians of {options.rounds} rounds, quartiles in brackets. {describe_machine(where)}")


if __name__ == "__main__":
    main()
