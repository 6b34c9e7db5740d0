"""A long table through `molattn predict`, killed in the middle and resumed: speed, memory, and whether a byte differs.

    python benchmarks/predict_length.py                       # 100,000 rows
    python benchmarks/predict_length.py --rows 1000000 --workers 2
    python benchmarks/predict_length.py --rows 1000000 --run runs/small --whole
    python benchmarks/predict_length.py --rows 1000000 --run runs/small --reference SHA256

The last two are the first in two sittings: `--whole` predicts without a kill and prints the checksum of the result, to
which `--reference` compares the resumed one.

The table repeats the 4,999 molecules of the NCI that come with RDKit, each row with its number; what they are predicted
with is a small model trained for two epochs on ESOL, or `--run`. Each prediction is the command that a user types, in a
process of its own, one thread each. The second is killed by SIGKILL when half of its parts are finished, and resumed.
It ends with code 1 if a byte differs, a row is lost, or a process takes more than `--limit` GiB.
"""

import argparse
import hashlib
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from rdkit import RDConfig

COMMAND = (sys.executable, "-c", "from molattn.cli.main import main; main()")
SMALL = ("--epochs", "2", "--set", "model.num_layers=2", "--set", "model.hidden_dim=32", "--accelerator", "cpu")


def write_input(path: Path, rows: int) -> None:
    """A table of that many molecules."""
    source = (Path(RDConfig.RDDataDir) / "NCI" / "first_5K.smi").read_text(encoding="utf-8").splitlines()
    smiles = [line.split("\t")[0] for line in source if line.strip()]
    with open(path, "w") as file:
        file.write("number,smiles\n")
        for i in range(rows):
            file.write(f"{i},{smiles[i % len(smiles)]}\n")


def predict(run: Path, table: Path, output: Path, workers: int, kill_at: int | None = None) -> tuple[float, float, int]:
    """Seconds, peak memory of the command in MiB and its exit code; killed once `kill_at` parts are finished."""
    options = ["-o", str(output), "--resume", "--quiet", "-n", str(workers)]
    start = time.perf_counter()
    process = subprocess.Popen(
        [*COMMAND, "predict", str(run), str(table), *options], env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    parts = output.with_name(f"{output.name}.parts")
    while kill_at is not None and process.poll() is None:
        if len(list(parts.glob("[0-9]*.json"))) >= kill_at:
            os.kill(process.pid, signal.SIGKILL)
            break
        time.sleep(0.02)
    # wait4 returns the peak of this child, whereas getrusage returns that of the largest child so far.
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return time.perf_counter() - start, usage.ru_maxrss / 1024, process.returncode


def sha256(path: Path) -> str:
    """Of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def all_in_order(path: Path, rows: int) -> bool:
    """Whether a result has every row of the input, in its order."""
    with open(path) as file:
        next(file)
        return all(line.startswith(f"{i},") for i, line in zip(range(rows), file, strict=True))


def main() -> int:
    """Predict, kill, resume, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--run", type=Path)
    parser.add_argument("--limit", type=float, default=2.0, help="GiB of memory that the command may take")
    parser.add_argument("--whole", action="store_true", help="predict once, without a kill, and print the checksum")
    parser.add_argument("--reference", default="", help="the checksum of that result, in place of predicting it")
    parser.add_argument("--folder", type=Path, help="where the tables go; a temporary folder if not given")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        run = options.run
        if run is None:
            run = folder / "run"
            subprocess.run([*COMMAND, "train", "--dataset", "esol", *SMALL, "-q", "-o", str(run)], check=True)
        table, whole, resumed = folder / "in.csv", folder / "whole.csv", folder / "resumed.csv"
        write_input(table, options.rows)
        seconds, peak, code = 0.0, 0.0, 0
        if not options.reference:
            seconds, peak, code = predict(run, table, whole, options.workers)
        if options.whole:
            good = code == 0 and all_in_order(whole, options.rows) and peak < options.limit * 1024
            print(f"{options.rows:,} rows in {seconds:.0f} s, peak memory {peak:.0f} MiB, sha256 {sha256(whole)}")
            return 0 if good else 1
        # A part is 16 chunks of 1,024 rows.
        middle = max(1, options.rows // (16 * 1024) // 2)
        first_seconds, first_peak, killed = predict(run, table, resumed, options.workers, middle)
        second_seconds, second_peak, resumed_code = predict(run, table, resumed, options.workers)
        result = sha256(resumed)
        same = result == (options.reference or sha256(whole))
        in_order = all_in_order(resumed, options.rows)
        peaks = max(peak, first_peak, second_peak)
        print("| rows | workers | rows a second | seconds | killed after | then | peak memory | bytes | rows |")
        print("|---|---|---|---|---|---|---|---|---|")
        print(
            f"| {options.rows:,} | {options.workers} "
            f"| {f'{options.rows / seconds:,.0f}' if seconds else ''} | {f'{seconds:.0f}' if seconds else ''} "
            f"| {first_seconds:.0f} s | {second_seconds:.0f} s | {peaks:.0f} MiB "
            f"| {'the same' if same else 'DIFFER'} | {'all, in order' if in_order else 'LOST'} |"
        )
        print(
            f"\n{table.stat().st_size / 1e6:.0f} MB of input; a machine with {os.cpu_count()} CPU cores "
            f"({platform.machine()}), one thread, torch {version('torch')}, rdkit {version('rdkit')}; sha256 {result}."
        )
        good = same and in_order and (code, killed, resumed_code) == (0, -9, 0) and peaks < options.limit * 1024
        print("good" if good else f"NOT GOOD: exit codes {code}, {killed}, {resumed_code}; {peaks:.0f} MiB")
        return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
