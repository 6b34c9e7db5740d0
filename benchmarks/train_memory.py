"""A long table through `molattn train`, twice: memory, how long its molecules take to read, and a second start.

    python benchmarks/train_memory.py                       # 1,000,000 rows
    python benchmarks/train_memory.py --rows 50000 --workers 2

The molecules are the 4,999 of the NCI that come with RDKit, over and over, each time beside another chain of carbon,
nitrogen and oxygen, so that hardly two are the same; the target is a number made of the text. A tiny model learns for
one epoch. Memory is the resident memory of the command and all its workers, sampled ten times a second, stage by stage
as the command tells them. It ends with code 1 if a command fails, if it takes more than `--limit` GiB, or if the
second run has other metrics than the first.
"""

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from importlib.metadata import version
from itertools import product
from pathlib import Path

from rdkit import RDConfig

COMMAND = (sys.executable, "-c", "from molattn.cli.main import main; main()")
TINY = ("--epochs", "1", "--set", "model.num_layers=1", "--set", "model.hidden_dim=16", "--set", "model.num_heads=2")


def write_input(path: Path, rows: int) -> None:
    """A table of that many molecules."""
    source = (Path(RDConfig.RDDataDir) / "NCI" / "first_5K.smi").read_text(encoding="utf-8").splitlines()
    smiles = [line.split("\t")[0] for line in source if line.strip()]
    chains = ("".join(chain) for length in range(2, 12) for chain in product("CNO", repeat=length))
    with open(path, "w") as file:
        file.write("number,smiles,y\n")
        for i in range(rows):
            if i % len(smiles) == 0:
                chain = next(chains)
            text = f"{smiles[i % len(smiles)]}.{chain}"
            file.write(f"{i},{text},{len(text) + text.count('N') / 7:.4f}\n")


def resident(root: int) -> float:
    """MiB of a process and all that it started."""
    pages, parents = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                pages[int(entry.name)] = int((entry / "statm").read_text().split()[1])
            except (OSError, ValueError, IndexError):
                continue
    tree, found = {root}, True
    while found:
        found = {child for child, parent in parents.items() if parent in tree and child not in tree}
        tree |= found
    return sum(pages.get(process, 0) for process in tree) * os.sysconf("SC_PAGE_SIZE") / 2**20


def train(arguments: list[str]) -> tuple[list[tuple[str, float, float]], int]:
    """The stages of the command, each with seconds and peak memory in MiB, and its exit code."""
    process = subprocess.Popen(
        [*COMMAND, "train", *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    stages_so_far = ["starting"]

    def listen() -> None:
        for line in process.stderr:
            print(f"    {line.rstrip()}", file=sys.stderr, flush=True)
            if not line.startswith(("molecule ", "building ", "epoch ", "warning", "task", "they were", "  ")):
                stages_so_far.append(line.strip())

    listener = threading.Thread(target=listen)
    listener.start()
    stages: dict[int, list[float]] = {}
    while process.poll() is None:
        stage = stages.setdefault(len(stages_so_far) - 1, [time.perf_counter(), time.perf_counter(), 0.0])
        stage[1:] = [time.perf_counter(), max(stage[2], resident(process.pid))]
        time.sleep(0.1)
    listener.join()
    return [(stages_so_far[i], end - start, peak) for i, (start, end, peak) in stages.items()], process.returncode


def main() -> int:
    """Train twice."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--limit", type=float, default=2.0, help="GiB that the command and its workers may take")
    parser.add_argument("--folder", type=Path, help="where table, cache and runs go; a temporary folder if not given")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        os.environ["MOLATTN_CACHE"] = str(folder / "cache")
        write_input(folder / "in.csv", options.rows)
        common = [str(folder / "in.csv"), "--target-columns", "y", *TINY, "-b", str(options.batch_size)]
        common += ["--accelerator", "cpu", "-n", str(options.workers)]
        runs, codes = {}, []
        for run in ("first", "second"):
            runs[run], code = train([*common, "-o", str(folder / run)])
            codes.append(code)
        print("| run | stage | seconds | peak memory |")
        print("|---|---|---|---|")
        for run, stages in runs.items():
            for stage, seconds, peak in stages:
                print(f"| {run} | {stage} | {seconds:.0f} | {peak:.0f} MiB |")
        stored = sum(p.stat().st_size for p in (folder / "cache").rglob("*") if p.is_file())
        size = (folder / "in.csv").stat().st_size
        print(
            f"\n{options.rows:,} rows, {size / 1e6:.0f} MB of input, {stored / 1e6:.0f} MB in the store, "
            f"{options.workers} workers, batches of {options.batch_size}; a machine with {os.cpu_count()} CPU cores "
            f"({platform.machine()}), one thread each, torch {version('torch')}, rdkit {version('rdkit')}."
        )
        peak = max(peak for stages in runs.values() for *_, peak in stages)
        same = codes == [0, 0] and len({(folder / run / "metrics.json").read_bytes() for run in runs}) == 1
        good = same and peak < options.limit * 1024
        print("good" if good else f"NOT GOOD: exit codes {codes}, {peak:.0f} MiB")
        return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
