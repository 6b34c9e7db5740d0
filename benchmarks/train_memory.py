"""`molattn train` of a long table, twice: the memory and the time of each stage, with an empty and a filled cache.

    python benchmarks/train_memory.py                       # 1,000,000 rows
    python benchmarks/train_memory.py --rows 50000 --workers 2

The molecules are the 4,999 NCI molecules in RDKit's data, repeated with different chains of carbon, nitrogen and
oxygen, so that almost all are distinct; the target is computed from the SMILES. A small model is trained for one epoch.
Memory is the resident memory of the command and its workers, sampled ten times a second; the stages are those that the
command prints. The exit code is 1 if a command fails, if it takes more than `--limit` GiB, or if the metrics of the two
runs differ.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from itertools import product
from pathlib import Path

from commands import MOLATTN, ONE_THREAD
from report import describe_machine, machine, markdown
from tables import nci_smiles

SMALL = ("--epochs", "1", "--set", "model.num_layers=1", "--set", "model.hidden_dim=16", "--set", "model.num_heads=2")


def write_input(path: Path, rows: int) -> None:
    """Write a table with that many molecules."""
    smiles = nci_smiles()
    chain, chains = "", ("".join(chain) for length in range(2, 12) for chain in product("CNO", repeat=length))
    with open(path, "w") as file:
        file.write("number,smiles,y\n")
        for i in range(rows):
            if i % len(smiles) == 0:
                chain = next(chains)
            text = f"{smiles[i % len(smiles)]}.{chain}"
            file.write(f"{i},{text},{len(text) + text.count('N') / 7:.4f}\n")


def resident(root: int) -> float:
    """Resident memory of a process and its descendants in MiB."""
    pages, parents = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                pages[int(entry.name)] = int((entry / "statm").read_text().split()[1])
            except (OSError, ValueError, IndexError):
                continue
    tree, children = {root}, {root}
    while children:
        children = {child for child, parent in parents.items() if parent in children}
        tree |= children
    return sum(pages.get(process, 0) for process in tree) * os.sysconf("SC_PAGE_SIZE") / 2**20


def train(arguments: list[str]) -> tuple[list[tuple[str, float, float]], int]:
    """The stages of the command with seconds and peak memory in MiB, and its exit code."""
    process = subprocess.Popen(
        [*MOLATTN, "train", *arguments],
        env={**os.environ, **ONE_THREAD},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    stderr = process.stderr
    assert stderr is not None
    names = ["starting"]

    def read_messages() -> None:
        for line in stderr:
            print(f"    {line.rstrip()}", file=sys.stderr, flush=True)
            if not line.startswith(("molecule ", "building ", "epoch ", "warning", "task", "they were", "  ")):
                names.append(line.strip())

    listener = threading.Thread(target=read_messages)
    listener.start()
    stages: dict[int, list[float]] = {}
    while process.poll() is None:
        stage = stages.setdefault(len(names) - 1, [time.perf_counter(), time.perf_counter(), 0.0])
        stage[1:] = [time.perf_counter(), max(stage[2], resident(process.pid))]
        time.sleep(0.1)
    listener.join()
    return [(names[i], end - start, peak) for i, (start, end, peak) in stages.items()], process.returncode


def main() -> int:
    """Train twice, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument(
        "--limit", type=float, default=2.0, help="largest peak memory of the command and its workers in GiB"
    )
    parser.add_argument("--folder", type=Path, help="folder of the table, cache and runs; a temporary one by default")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        os.environ["MOLATTN_CACHE"] = str(folder / "cache")
        write_input(folder / "in.csv", options.rows)
        common = [str(folder / "in.csv"), "--target-columns", "y", *SMALL, "-b", str(options.batch_size)]
        common += ["--accelerator", "cpu", "-n", str(options.workers)]
        runs, codes = {}, []
        for run in ("first", "second"):
            runs[run], code = train([*common, "-o", str(folder / run)])
            codes.append(code)
        rows = [
            [run, stage, f"{seconds:.0f}", f"{peak:.0f} MiB"]
            for run, stages in runs.items()
            for stage, seconds, peak in stages
        ]
        print(markdown(["run", "stage", "seconds", "peak memory"], rows))
        stored = sum(p.stat().st_size for p in (folder / "cache").rglob("*") if p.is_file())
        size = (folder / "in.csv").stat().st_size
        print(
            f"\n{options.rows:,} rows, {size / 1e6:.0f} MB of input, {stored / 1e6:.0f} MB in the store, "
            f"{options.workers} workers, batches of {options.batch_size}. {describe_machine(machine())}"
        )
        peak = max(peak for stages in runs.values() for *_, peak in stages)
        same = codes == [0, 0] and len({(folder / run / "metrics.json").read_bytes() for run in runs}) == 1
        good = same and peak < options.limit * 1024
        print("good" if good else f"NOT GOOD: exit codes {codes}, {peak:.0f} MiB")
        return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
