"""The cost of the default model as a function of atoms, molecules, layers, heads, width and threads.

    python benchmarks/scaling.py -o scaling.json --plot docs/results/scaling.png

One variable at a time is changed, from a batch of 64 chains of 20 carbon atoms and the default model (4 layers of 64
channels in 8 heads); batches have 8 molecules where atoms are varied. A training step is forward, backward and AdamW; a
prediction is forward without gradients. Reading SMILES and collating are not included. Every point is measured in a
fork of a process with all imports. Time is CPU time, and wall time where threads are varied; the values are medians
over rounds with quartiles. Memory is the increase of the peak memory of the process, including the model and the batch.
The slope is that of the least squares line through the logarithms: 1 is linear, 2 is quadratic. Two minutes of CPU
time. Linux.
"""

import argparse
import json
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.ticker import LogLocator, StrMethodFormatter
from report import describe_machine, format_spread, machine, markdown, save_results, spread

from molattn.data.store.batches import MoleculeBatch, collate
from molattn.models.config import GraphModelConfig
from molattn.models.graph_model import GraphModel
from molattn.viewer.figures import new_figure, render


@dataclass(frozen=True)
class Point:
    """A model and a batch that are measured."""

    atoms: int = 20
    molecules: int = 64
    layers: int = 4
    heads: int = 8
    width: int = 64
    threads: int = 1

    def model(self) -> GraphModel:
        """The default model with these sizes."""
        torch.manual_seed(0)
        return GraphModel(GraphModelConfig(num_layers=self.layers, num_heads=self.heads, hidden_dim=self.width))

    def batch(self) -> MoleculeBatch:
        """Chains of carbon."""
        graphs = GraphModel.read(["C" * self.atoms] * self.molecules)
        return collate(graphs)  # pyright: ignore[reportArgumentType]


AXES: dict[str, tuple[Point, tuple[int, ...]]] = {
    "atoms": (Point(molecules=8), (10, 20, 40, 80, 160, 320)),
    "molecules": (Point(), (16, 64, 256, 1024)),
    "layers": (Point(), (1, 2, 4, 8)),
    "heads": (Point(), (1, 2, 4, 8, 16)),
    "width": (Point(), (32, 64, 128, 256)),
    "threads": (Point(), (1, 2)),
}
MODES = ("training", "prediction")
COLUMNS = ("varied", "value", "training, ms", "prediction, ms", "training, MB", "prediction, MB")


def peak() -> float:
    """The peak memory of this process in MB."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def reset_peak() -> None:
    """Reset the peak memory to the current memory."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def steps(point: Point, training: bool) -> Callable[[], object]:
    """A function that makes one training step or prediction."""
    model, batch = point.model(), point.batch()
    if not training:
        model.eval()

        def predict() -> None:
            with torch.inference_mode():
                model(batch)

        return predict
    optimizer, target = torch.optim.AdamW(model.parameters(), lr=1e-3), torch.zeros(point.molecules, 1)

    def train() -> None:
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.mse_loss(model(batch), target).backward()
        optimizer.step()

    return train


def measure(point: Point, training: bool, rounds: int, budget: float, clock: Callable[[], float]) -> dict[str, Any]:
    """The milliseconds of a step, and the memory in MB."""
    torch.set_num_threads(point.threads)
    reset_peak()
    before = peak()
    step = steps(point, training)
    step()
    start = clock()
    step()
    repeats = max(1, round(budget / (clock() - start)))
    times = []
    for _ in range(rounds):
        start = clock()
        for _ in range(repeats):
            step()
        times.append((clock() - start) / repeats * 1e3)
    return {"ms": spread(times), "MB": peak() - before}


def run_in_fork(work: Callable[[], Any]) -> Any:
    """The result of `work`, which must be JSON, in a fork of this process.

    Raises:
        RuntimeError: the fork failed.
    """
    read, write = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        try:
            os.close(read)
            with os.fdopen(write, "w") as pipe:
                json.dump(work(), pipe)
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read) as pipe:
        content = pipe.read()
    if os.waitpid(child, 0)[1]:
        raise RuntimeError("a measurement failed: see its error above")
    return json.loads(content)


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """The slope of the least squares line through the logarithms."""
    return float(np.polyfit([math.log(v) for v in x], [math.log(v) for v in y], 1)[0])


def plot(results: Sequence[dict[str, Any]], path: Path) -> None:
    """Plot time and memory as functions of each variable, with logarithmic axes."""
    with new_figure(11.0, 5.0, "constrained") as figure:
        names = list(dict.fromkeys(row["varied"] for row in results))
        all_axes = figure.subplots(2, len(names), sharey="row", squeeze=False)
        for column, name in enumerate(names):
            rows = [row for row in results if row["varied"] == name]
            values = [row["value"] for row in rows]
            for axes, unit in zip(all_axes[:, column], ("ms", "MB"), strict=True):
                for mode, color, marker in (("training", "#d55e00", "o"), ("prediction", "#56b4e9", "^")):
                    y = [row[mode][unit]["median"] if unit == "ms" else row[mode][unit] for row in rows]
                    axes.loglog(values, y, color=color, marker=marker, markersize=4, label=mode)
                axes.set_xticks(values, [str(v) for v in values])
                axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
                axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
                axes.minorticks_off()
            all_axes[0, column].set_title(name)
        all_axes[0, 0].set_ylabel("ms a batch")
        all_axes[1, 0].set_ylabel("MB")
        all_axes[0, 0].legend(frameon=False)
        render(figure).save(path)


def main() -> None:
    """Measure, print the tables, write the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--axes", nargs="+", choices=AXES, default=list(AXES))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--budget", type=float, default=0.2, help="seconds of a round")
    parser.add_argument("-o", "--output", type=Path, help="a JSON file for the results")
    parser.add_argument("--plot", type=Path, help="an SVG or PNG file")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results: list[dict[str, Any]] = []
    # The first call compiles code.
    run_in_fork(lambda: measure(Point(molecules=1), True, 1, 0.0, time.process_time))
    for name in arguments.axes:
        base, values = AXES[name]
        clock = time.perf_counter if name == "threads" else time.process_time
        for value in values:
            point, row = replace(base, **{name: value}), {"varied": name, "value": value}
            for mode in MODES:
                row[mode] = run_in_fork(
                    lambda point=point, mode=mode, clock=clock: measure(
                        point, mode == "training", arguments.rounds, arguments.budget, clock
                    )
                )
            results.append(row)
    cells = [
        [r["varied"], r["value"], *(format_spread(r[m]["ms"], 1) for m in MODES), *(f"{r[m]['MB']:.0f}" for m in MODES)]
        for r in results
    ]
    print(markdown(COLUMNS, cells) + "\n")
    slopes = []
    for name in arguments.axes:
        rows = [row for row in results if row["varied"] == name]
        x = [row["value"] for row in rows]
        of_time = [slope(x, [row[mode]["ms"]["median"] for row in rows]) for mode in MODES]
        last = [slope(x[-2:], [row[mode]["ms"]["median"] for row in rows[-2:]]) for mode in MODES]
        of_memory = slope(x, [row["training"]["MB"] for row in rows])
        slopes.append([name, f"{x[0]} to {x[-1]}", *(f"{s:.2f}" for s in (*of_time, *last, of_memory))])
    columns = (
        "varied",
        "from",
        "training",
        "prediction",
        "training, last step",
        "prediction, last step",
        "MB, training",
    )
    print(markdown(columns, slopes))
    where = machine(("torch",))
    print(f"\n{describe_machine(where)}")
    if arguments.plot:
        plot(results, arguments.plot)
    if arguments.output:
        save_results(arguments.output, "scaling", vars(arguments), {"points": results, "slopes": slopes}, where)


if __name__ == "__main__":
    main()
