"""The scoreboard at length: `tests/reliability`, with many more inputs, kills and damaged files than the suite has time
for; the headline, and a table line by line.

    python benchmarks/reliability.py [--lines 21 22] [-o reliability.json]
    python benchmarks/reliability.py --page docs/reliability.md    # that page again, from a run of all lines

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

from report import in_words, machine, markdown, save

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
}
"""What each line of the scoreboard holds."""

INPUTS = ("hostile inputs", "hostile names", "formulas", "archives", "certificates")
"""What the headline counts as hostile inputs."""


def counted(lines: list[int]) -> list[dict[str, Any]]:
    """What every test of these lines counted; all of them for none."""
    chosen = " or ".join(f"test_{line:02d}_" for line in lines)
    with tempfile.TemporaryDirectory() as folder:
        scores = Path(folder) / "scores"
        command = [sys.executable, "-m", "pytest", "-q", "-o", "addopts=", "-o", "timeout=3600", "tests/reliability"]
        environment = {**os.environ, "MOLATTN_RELIABILITY": "long", "MOLATTN_SCORES": str(scores)}
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        subprocess.run([*command, *(["-k", chosen] if chosen else [])], cwd=ROOT, env=environment, check=False)
        return [json.loads(line) for line in scores.read_text().splitlines()] if scores.exists() else []


def headline(scores: list[dict[str, Any]]) -> str:
    """The sentence with the numbers of all lines together."""
    tried: Counter[str] = Counter()
    for score in scores:
        tried.update(score["tried"])
    lost, wrong, ran = (sum(score[name] for score in scores) for name in ("lost_rows", "wrong_rows", "executed"))
    return (
        f"{sum(tried[name] for name in INPUTS):,} hostile inputs, {tried['pickles']:,} doors tried with pickles, "
        f"{tried['kills']:,} kills, {tried['full disks']:,} full disks, {tried['corrupt files']:,} corrupt files, "
        f"{tried['rows']:,} rows: {lost:,} lost rows, {wrong:,} wrong rows, {ran:,} code executed"
    )


def table(scores: list[dict[str, Any]], lines: list[int]) -> str:
    """A row for each line: what was tried, and whether it holds."""
    rows = []
    for line in lines or LINES:
        of_line = [score for score in scores if score["line"] == line]
        tried, notes = Counter[str](), dict[str, float]()
        for score in of_line:
            tried.update(score["tried"])
            notes |= score["notes"]
        said = [f"{number:,} {what}" for what, number in tried.items()]
        said += [f"{what} {number:.2g}" for what, number in notes.items()]
        failed = [text for score in of_line for text in score["failed"]]
        holds = "no test" if not of_line else "yes" if all(score["holds"] for score in of_line) else "NO"
        rows.append([line, LINES[line], ", ".join(said), holds, *([failed[0][:120]] if failed else [""])])
    return markdown(["line", "what", "tried", "holds", ""], rows)


def page(scores: list[dict[str, Any]], where: dict[str, Any], seconds: float) -> str:
    """The document with the headline and the table."""
    made = "`python benchmarks/reliability.py --page docs/reliability.md`"
    return (
        f"# Nothing lost\n\nMade by {made}: the scoreboard of faults in\n"
        "`tests/reliability`, at length; the tests of every day try fewer of each.\n\n"
        f"**{headline(scores)}.**\n\n{table(scores, [])}\n\n{in_words(where)} {seconds:,.0f} seconds.\n"
    )


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, nargs="*", default=[], help="of the scoreboard; all by default")
    parser.add_argument("-o", "--output", type=Path, default=Path("reliability.json"))
    parser.add_argument("--page", type=Path, help="a Markdown file to write as well")
    options = parser.parse_args()
    if options.page and options.lines:
        parser.error("--page takes all lines: leave out --lines")
    start, where = time.perf_counter(), machine(("torch", "rdkit", "safetensors", "pyarrow"))
    scores = counted(options.lines)
    print(f"\n{headline(scores)}\n\n{table(scores, options.lines)}\n\n{in_words(where)}")
    seconds = time.perf_counter() - start
    print(f"{seconds:.0f} s.")
    if options.page:
        options.page.write_text(page(scores, where, seconds), encoding="utf-8")
    save(
        options.output, "reliability", {"lines": options.lines}, {"headline": headline(scores), "tests": scores}, where
    )
    if not scores or not all(score["holds"] for score in scores):
        sys.exit(1)


if __name__ == "__main__":
    main()
