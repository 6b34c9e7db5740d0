"""The figures of the README are those of the pages that the benchmarks write."""

import csv
import re
from pathlib import Path

import numpy as np
import pytest

from molattn.data import read_split_file

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def rows(text: str) -> list[list[str]]:
    """The cells of the rows of all tables, without the lines between heads and bodies."""
    found = [
        [cell.strip() for cell in line.strip().strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"
    ]
    return [cells for cells in found if set(cells[0]) != {"-"}]


def section(file: Path, heading: str) -> str:
    """The text under a heading, up to the next of the same level."""
    level = heading.partition(" ")[0]
    _, found, rest = f"\n{file.read_text(encoding='utf-8')}".partition(f"\n{heading}\n")
    assert found, heading
    return rest.partition(f"\n{level} ")[0]


def readme(heading: str) -> list[list[str]]:
    """The rows of the README's table under a heading, without its head."""
    return rows(section(ROOT / "README.md", heading))[1:]


def test_the_counts_of_faults() -> None:
    (headline,) = re.findall(
        r"^\*\*(.* code executed)\.\*\*$", (DOCS / "reliability.md").read_text("utf-8"), re.MULTILINE
    )
    hostile, given, pickles, kills, full, corrupt, *faults = re.findall(r"[\d,]*\d", headline)
    assert faults == ["0", "0", "0"]
    of_inputs, of_faults = readme("## How robust")
    assert of_inputs[1:] == [f"{hostile}; {given}", "0, 0, 0"]
    assert of_faults[1:] == [f"{kills}; {full}; {corrupt}; {pickles}", "0, 0, 0"]


def errors(data_set: str, kind: str) -> dict[str, tuple[float, str]]:
    """The mean and the number of splits or seeds of every single model, as docs/accuracy.md has them."""
    head, *body = rows(section(DOCS / "accuracy.md", f"## {data_set}").partition("\n| test rmse, ensembles")[0])
    found = {}
    for cells in body:
        if cells[0] == "molattn minus":
            break
        mean, number = re.fullmatch(r"([\d.]+).*\((\d+)\)", cells[head.index(kind)]).groups()  # pyright: ignore
        found[cells[0]] = float(mean), number
    return found


@pytest.mark.parametrize("row", readme("## How accurate"), ids=lambda row: f"{row[0].partition(',')[0]} {row[1]}")
def test_the_errors_and_the_best_of_the_others(row: list[str]) -> None:
    what, splits, ours, other, interval = row
    data_set = what.partition(",")[0].lower()
    kind = "scaffold" if "scaffold" in splits else "random"
    found = errors(data_set, kind)
    own, number = found.pop("molattn")
    others = {name: mean for name, (mean, _) in found.items() if not name.startswith("molattn")}
    best = (max if data_set == "bbbp" else min)(others, key=lambda name: others[name])
    names = {"boosting": "boosted trees", "forest": "random forest", "attentivefp": "AttentiveFP"}
    assert ours == f"{own:.3f}" and other == f"{names.get(best, best)} {others[best]:.3f}"
    assert re.findall(r"\d+", splits) == [number]
    if not interval:
        return
    difference = next(
        cells for cells in rows(section(DOCS / "accuracy.md", f"## {data_set}")) if cells[0] == best and len(cells) == 5
    )
    _, _, bounds, of_splits, better = difference
    words = bounds if better == "molattn" else f"no difference: {bounds}"
    assert interval == (words if of_splits == number else f"{words}, {of_splits} splits")


def test_the_error_of_the_training_mean() -> None:
    with (ROOT / "datasets" / "esol.csv").open(encoding="utf-8", newline="") as file:
        _, *molecules = csv.reader(file)
    smiles, y = [cells[0] for cells in molecules], np.array([float(cells[1]) for cells in molecules])

    def error(split: int) -> float:
        side = np.array(read_split_file(ROOT / "datasets" / "splits" / f"esol-random{split}.csv", smiles))
        return float(np.sqrt(np.mean((y[side == "test"] - y[side == "train"].mean()) ** 2)))

    text = " ".join((ROOT / "README.md").read_text("utf-8").split())
    assert f"and by {np.mean([error(k) for k in range(3)]):.3f} on average over the splits random0 to random2" in text


def ratios(page: str, heading: str, column: str, table: int = 0) -> dict[str, float]:
    """A column of medians, by the first cell of the rows, of one of the tables under a heading."""
    tables = re.split(r"\n(?!\|)", section(DOCS / "results" / page, heading))
    head, *body = rows([part for part in tables if "|" in part][table])
    return {cells[0]: float(cells[head.index(column)].split()[0]) for cells in body if cells[head.index(column)]}


def test_the_ratios_of_speed() -> None:
    prediction, epoch, layers = readme("## How fast")
    columns = []
    for heading, column, table in (
        ("## From CSV to CSV", "molattn times its rate, CPU", 0),
        ("## From CSV to CSV, on other processors", "molattn times its rate, CPU", 0),
        ("## From CSV to CSV, on other processors", "molattn times its rate", 1),
    ):
        of = {
            name.removeprefix("NCI: "): value
            for name, value in ratios("prediction_speed.md", heading, column, table).items()
        }
        columns.append(f"{of['chemprop']:.1f}; {of['chemprop, C++ featurizer']:.1f}")
    assert prediction[1:] == columns
    columns = []
    for table in (0, 1, 2):
        of = ratios("training_speed.md", "## An epoch", "times as long as molattn", table)
        columns.append(f"{of['chemprop']:.1f}; {of['AttentiveFP']:.1f}")
    assert epoch[1:] == columns
    padded = section(DOCS / "results" / "layer_speed.md", "### Batches of molecules").partition("\nAn edge list")[0]
    head, *body = rows(padded)
    medians = [float(cells[head.index("TransformerConv")].split()[0]) for cells in body]
    assert layers[1:] == ["", "", f"{min(medians)} to {max(medians)}"]


def test_the_mean_rank_in_the_arena() -> None:
    text = " ".join(section(ROOT / "README.md", "## How accurate").split())
    own, tasks, with_trees, other, published = re.findall(
        r"mean rank ([\d.]+) over (\d+) of TDC's leaderboards, and ([\d.]+) with `--with-trees`; "
        r"the best published entry, ([^,]+), (\d\.\d)",
        text,
    )[0]
    for name, mean in {"molattn": own, "molattn with-trees": with_trees}.items():
        ranks = section(DOCS / "arena.md", f"### {name} in the leaderboards")
        assert f"Mean rank: {mean}, over {tasks} of {tasks} tasks." in ranks
    page = (DOCS / "arena.md").read_text("utf-8")
    assert f"by their mean rank: {other} {published}," in page


def test_the_errors_on_moleculeace() -> None:
    text = " ".join(section(ROOT / "README.md", "## How accurate").split())
    targets, *errors = re.findall(
        r"On (\d+) targets of MoleculeACE, RMSE ([\d.]+), with trees ([\d.]+), a forest \(one seed\) ([\d.]+):", text
    )[0]
    measured = section(DOCS / "arena.md", "## MoleculeACE")
    for name, error in zip(("molattn", "molattn with-trees", "forest-morgan"), errors, strict=True):
        assert f"| {name} | measured | {targets} | {error} |" in measured
