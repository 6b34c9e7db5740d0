"""Run `tests/reliability` with many more inputs, kills and damaged files than in the test suite, and print the results:
a summary, and a table with a row for each line of the scoreboard.

    python benchmarks/reliability.py [--lines 21 22] [-o reliability.json]
    python benchmarks/reliability.py --page docs/reliability.md    # write that page from a run of all lines
    python benchmarks/reliability.py --quick                       # as many as in the test suite, in minutes

Needs the extra `test`, and Chromium for line 35; lines 27, 29 and 30 start many processes.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from report import describe_machine, machine, markdown, save_results

ROOT = Path(__file__).parents[1]
LINES = {
    1: "hostile strings, each answered with its row and a reason",
    2: "one bad row in 1,001: 1,000 predictions, one error",
    3: "other characters and inner white space, refused before RDKit",
    4: "empty SMILES",
    5: "single atoms, ions and salts are finite, fragments apart",
    6: "unknown charges and bonds are warned of",
    7: "over the limits, refused before RDKit",
    8: "tangled rings and long chains",
    9: "dialects of CSV: right, or a named error",
    10: "tables with odd rows and headers: a named error",
    11: "targets that are no numbers: row and column named",
    12: "generated molecules, each in two spellings, within 1e-5",
    13: "constant, single, missing and extreme targets",
    14: "masked labels have exactly no gradient",
    15: "a side of one class: null with a reason",
    16: "duplicates across sides are reported; splits make none",
    17: "the scaler sees the training side alone",
    18: "same seed, same weights; 1 and 2 threads within 1e-6",
    19: "attention is that of torch within 1e-12",
    20: "order, padding, company, gradients of every preset",
    21: "SIGKILL while a model, checkpoint or table is saved",
    22: "training killed and resumed, the same to the bit",
    23: "a disk full at any byte: what was before is whole",
    24: "truncated files and flipped bits: a clean error, or made anew",
    25: "models of every release load within 1e-6; a newer one says upgrade",
    26: "columns of the input are kept, none overwritten",
    27: "the exact count of rows, in order, with workers too, and on Ray with one killed",
    28: "attention sums to 1, and is of the prediction",
    29: "two ranks: each row predicted once, the metric of one process",
    30: "a rank that is killed ends the others within 30 s; resumed, the same to the bit",
    31: "four processes on a cold cache: made once, the same",
    32: "pickles are refused by every reader, and run nothing",
    33: "downloads that are flipped, cut or not certified: refused",
    34: "hostile archives: nothing outside, clean errors",
    35: "hostile names in pages and cells: no active node, no formula",
    36: "no unpickling, eval or unverified connection in the source",
    37: "fuzzed SMILES: molecules or errors, every bracket read as it is written",
    38: "a sample of them through predict: each row back, in order, finite or with a reason",
    39: "quotes never closed, blank lines and very many names at the head of a table: one sentence within seconds",
    40: "numbers that are not finite: refused in a model, an error row in an answer",
    41: "compiled libraries that are damaged or others': built anew or left out; compilers that hang are remembered",
    42: "model folders with hostile keys and tensors: a sentence, or finite answers, in 5 s and 1 GiB",
    43: "escape sequences in names, units, paths and SMILES are printed as text",
    44: "two commands at one output or run: one goes on, the other says so",
    45: "tampered checkpoints: damaged, in one sentence, or the training goes on",
    46: "streams closed or full, readers that go, names of any bytes: the promised code, no traceback",
    47: "hostile tables end to end: right, or one sentence, within 5 s and 1 GiB, or 0.5 more than ordinary ones",
    48: "other hash seeds, thread counts and processors: the same answers; nothing listens to other machines",
}
"""The property that each line of the scoreboard tests."""


def run_tests(lines: list[int], quick: bool, workers: int) -> list[dict[str, Any]]:
    """The scores of the tests of these lines, by default of all; `quick` runs as many cases as the test suite."""
    chosen = " or ".join(f"test_{line:02d}_" for line in lines)
    with tempfile.TemporaryDirectory() as folder:
        scores = Path(folder) / "scores"
        parallel = ["-n", str(workers), "--dist", "worksteal"]
        command = [sys.executable, "-m", "pytest", "-q", "-o", "addopts=", "-o", "timeout=3600", *parallel]
        command.append("tests/reliability")
        environment = {**os.environ, "MOLATTN_RELIABILITY": "" if quick else "long", "MOLATTN_SCORES": str(scores)}
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        subprocess.run([*command, *(["-k", chosen] if chosen else [])], cwd=ROOT, env=environment, check=False)
        return [json.loads(line) for line in scores.read_text().splitlines()] if scores.exists() else []


def headline(scores: list[dict[str, Any]]) -> str:
    """The sentence with the totals of all lines."""
    tried: Counter[str] = Counter()
    hostile, rows = _distinct(scores)
    for score in scores:
        tried.update(score["tried"])
    lost, wrong, executed = (sum(score[name] for score in scores) for name in ("lost_rows", "wrong_rows", "executed"))
    return (
        f"{hostile:,} distinct hostile inputs and {rows:,} distinct rows from end to end, {tried['pickles']:,} doors "
        f"tried with pickles, {tried['kills']:,} kills, {tried['full disks']:,} full disks, "
        f"{tried['corrupt files']:,} corrupt files: {lost:,} lost rows, {wrong:,} wrong rows, {executed:,} code "
        "executed"
    )


def _distinct(scores: list[dict[str, Any]]) -> tuple[int, int]:
    """The numbers of distinct hostile inputs and rows of these tests, from end to end."""
    hostile, rows = (set[str]().union(*(score[name] for score in scores)) for name in ("hostile", "rows_given"))
    return len(hostile), len(rows)


def table(scores: list[dict[str, Any]], lines: list[int]) -> str:
    """A row for each line: the numbers of cases, and whether all tests pass."""
    rows = []
    for line in lines or LINES:
        of_line = [score for score in scores if score["line"] == line]
        tried, notes = Counter[str](), dict[str, float]()
        for score in of_line:
            tried.update(score["tried"])
            notes |= score["notes"]
        hostile, given = _distinct(of_line)
        distinct = (("distinct hostile inputs", hostile), ("distinct rows", given))
        counts = [f"{number:,} {name}" for name, number in (*distinct, *tried.items()) if number]
        counts += [f"{name} {number:.2g}" for name, number in notes.items()]
        failed = [text for score in of_line for text in score["failed"]]
        holds = "no test" if not of_line else "yes" if all(score["holds"] for score in of_line) else "NO"
        rows.append([line, LINES[line], ", ".join(counts), holds, *([failed[0][:120]] if failed else [""])])
    return markdown(["line", "what", "tried", "holds", ""], rows)


def page(scores: list[dict[str, Any]], where: dict[str, Any], seconds: float, quick: bool) -> str:
    """The document with the summary and the table."""
    made = f"`python benchmarks/reliability.py {'--quick ' if quick else ''}--page docs/reliability.md`"
    much = "as many of each as the test suite tries" if quick else "at length; the tests of every day try fewer of each"
    return (
        f"# Nothing lost\n\nMade by {made}: the scoreboard of faults in\n`tests/reliability`, {much}.\n\n"
        "Inputs and rows are counted once, however often they are tried, and only where they went from what a user\n"
        "gives (a cell, a file, an argument) through a command or `molattn.load` to the answer.\n\n"
        f"**{headline(scores)}.**\n\n{table(scores, [])}\n\n{describe_machine(where)} {seconds:,.0f} seconds.\n"
    )


def main() -> None:
    """Run the tests, print the results and save them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, nargs="*", default=[], help="of the scoreboard; all by default")
    parser.add_argument("-o", "--output", type=Path, default=Path("reliability.json"))
    parser.add_argument("--quick", action="store_true", help="try as many of each as the test suite does")
    parser.add_argument("--workers", type=int, default=2, help="tests at a time (default: 2)")
    parser.add_argument("--page", type=Path, help="a Markdown file to write as well")
    options = parser.parse_args()
    if options.page and options.lines:
        parser.error("--page takes all lines: leave out --lines")
    start, where = time.perf_counter(), machine(("torch", "rdkit", "safetensors", "pyarrow"))
    scores = run_tests(options.lines, options.quick, options.workers)
    print(f"\n{headline(scores)}\n\n{table(scores, options.lines)}\n\n{describe_machine(where)}")
    seconds = time.perf_counter() - start
    print(f"{seconds:.0f} s.")
    if options.page:
        options.page.write_text(page(scores, where, seconds, options.quick), encoding="utf-8")
    counts = [{**score, "hostile": len(score["hostile"]), "rows_given": len(score["rows_given"])} for score in scores]
    save_results(
        options.output,
        "reliability",
        {"lines": options.lines, "quick": options.quick},
        {"headline": headline(scores), "tests": counts},
        where,
    )
    if not scores or not all(score["holds"] for score in scores):
        sys.exit(1)


if __name__ == "__main__":
    main()
