"""`molattn predict` of a long table, killed in the middle and resumed: speed, memory, and equality of the results.

    python benchmarks/predict_length.py                       # 100,000 rows
    python benchmarks/predict_length.py --rows 1000000 --workers 2
    python benchmarks/predict_length.py --rows 1000000 --run runs/small --whole
    python benchmarks/predict_length.py --rows 1000000 --run runs/small --reference SHA256

The last two split the first command into two: `--whole` predicts without a kill and prints the checksum of the result,
with which `--reference` compares the resumed one.

The table repeats the 4,999 NCI molecules in RDKit's data, with row numbers; the model is a small one trained for two
epochs on ESOL, or `--run`. Each prediction is the command that a user types, in a process of its own on one thread. The
second one is killed by SIGKILL when half of its parts are finished, and resumed. The exit code is 1 if the results
differ, a row is missing, or a process takes more than `--limit` GiB.
"""

import argparse
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import commands
from commands import MOLATTN, ONE_THREAD
from report import describe_machine, machine, markdown
from tables import nci_smiles, write_numbered

SMALL = ("--epochs", "2", "--set", "model.num_layers=2", "--set", "model.hidden_dim=32", "--accelerator", "cpu")


def predict(
    model: Path, table: Path, output: Path, workers: int, kill_at: int | None = None
) -> tuple[float, float, int]:
    """Seconds, peak memory in MiB and exit code of a prediction, which is killed once `kill_at` parts are finished."""
    options = ["-o", str(output), "--resume", "--quiet", "-n", str(workers)]
    start = time.perf_counter()
    process = subprocess.Popen(
        [*MOLATTN, "predict", str(model), str(table), *options], env={**os.environ, **ONE_THREAD}
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
    """The checksum of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def all_in_order(path: Path, rows: int) -> bool:
    """Whether a result has all rows of the input, in order."""
    with open(path) as file:
        next(file)
        return all(line.startswith(f"{i},") for i, line in zip(range(rows), file, strict=True))


def main() -> int:
    """Predict, kill, resume, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--run", type=Path)
    parser.add_argument("--limit", type=float, default=2.0, help="largest peak memory in GiB")
    parser.add_argument("--whole", action="store_true", help="predict once, without a kill, and print the checksum")
    parser.add_argument("--reference", default="", help="the checksum that `--whole` printed")
    parser.add_argument("--folder", type=Path, help="the folder of the tables; a temporary one by default")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        model = options.run
        if model is None:
            model = folder / "run"
            commands.run([*MOLATTN, "train", "--dataset", "esol", *SMALL, "-q", "-o", model])
        table, whole, resumed = folder / "in.csv", folder / "whole.csv", folder / "resumed.csv"
        write_numbered(table, nci_smiles(), options.rows)
        seconds, peak, code = 0.0, 0.0, 0
        if not options.reference:
            seconds, peak, code = predict(model, table, whole, options.workers)
        if options.whole:
            good = code == 0 and all_in_order(whole, options.rows) and peak < options.limit * 1024
            print(f"{options.rows:,} rows in {seconds:.0f} s, peak memory {peak:.0f} MiB, sha256 {sha256(whole)}")
            return 0 if good else 1
        # A part is 16 chunks of 1,024 rows.
        middle = max(1, options.rows // (16 * 1024) // 2)
        first_seconds, first_peak, killed = predict(model, table, resumed, options.workers, middle)
        second_seconds, second_peak, resumed_code = predict(model, table, resumed, options.workers)
        result = sha256(resumed)
        same = result == (options.reference or sha256(whole))
        in_order = all_in_order(resumed, options.rows)
        peaks = max(peak, first_peak, second_peak)
        columns = [
            "rows",
            "workers",
            "rows a second",
            "seconds",
            "killed after",
            "then",
            "peak memory",
            "bytes",
            "rows",
        ]
        rate, time_of_one = (f"{options.rows / seconds:,.0f}", f"{seconds:.0f}") if seconds else ("", "")
        row = [f"{options.rows:,}", options.workers, rate, time_of_one, f"{first_seconds:.0f} s"]
        row += [f"{second_seconds:.0f} s", f"{peaks:.0f} MiB", "the same" if same else "DIFFERENT"]
        print(markdown(columns, [[*row, "all, in order" if in_order else "MISSING OR REORDERED"]]))
        size = table.stat().st_size / 1e6
        print(f"\n{size:.0f} MB of input; sha256 {result}. {describe_machine(machine())}")
        good = same and in_order and (code, killed, resumed_code) == (0, -9, 0) and peaks < options.limit * 1024
        print("good" if good else f"NOT GOOD: exit codes {code}, {killed}, {resumed_code}; {peaks:.0f} MiB")
        return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
