"""How much memory molattn takes: against the atoms of a molecule, molecules in a batch, and the rows of a table.

    python benchmarks/memory.py
    python benchmarks/memory.py --rows 10000 1000000 -o memory.json

Each figure is the most resident memory that a process of its own had, the interpreter and its libraries included, one
thread each: `molattn predict` from a table to a table, every attention map of one molecule, or two steps of training of
the default model with AdamW. It ends with code 1 if any of them fails, takes more than `--limit` GiB, or if memory
grows by more than a quarter from the shorter table to the ten times longer one.
"""

import argparse
import csv
import sys
import tempfile
from pathlib import Path

from processes import took
from rdkit import RDConfig
from report import in_words, machine, markdown, save

MOLATTN = (sys.executable, "-c", "from molattn.cli.main import main; main()")
ATOMS = (10, 100, 300, 1000)
MOLECULES = (1, 8, 64)
MOST_PAIRS = 64 * 100**2
"""Of atoms in a batch of training: 3.5 GB where nothing is recomputed. A molecule alone is always tried."""

MAPS = """
import sys, torch, molattn
torch.set_num_threads(1)
weights = molattn.load(sys.argv[1]).attention(sys.argv[2]).weights
assert weights.shape[-1] == int(sys.argv[3])
"""
STEPS = """
import sys, torch
from molattn.chem import molecule_graph
from molattn.models.config import GraphModelConfig
from molattn.models.base import build
torch.set_num_threads(1)
model = build(GraphModelConfig(), 1)
optimizer = torch.optim.AdamW(model.parameters())
batch = model.collate([molecule_graph(sys.argv[1])] * int(sys.argv[2]))
for _ in range(2):
    loss = model(batch).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
assert bool(loss.isfinite())
"""


def chain(atoms: int) -> str:
    """A molecule of so many atoms."""
    return ("CCO" * atoms)[:atoms]


def predicted(run: Path, table: Path, out: Path) -> tuple[float, list[dict[str, str]]]:
    """The peak of `molattn predict`, MiB, and the rows that it wrote."""
    peak = took((*MOLATTN, "predict", run, table, "-o", out, "--force", "--quiet")).peak
    with open(out, newline="", encoding="utf-8") as file:
        return peak, list(csv.DictReader(file))


def write_table(path: Path, smiles: list[str], rows: int) -> Path:
    """A table of so many rows that repeats the molecules."""
    with open(path, "w", encoding="utf-8") as file:
        file.write("number,smiles\n")
        file.writelines(f"{i},{smiles[i % len(smiles)]}\n" for i in range(rows))
    return path


def by_atoms(run: Path, folder: Path) -> dict[int, dict[str, float]]:
    """Peaks by the atoms of a molecule, what is done with it, and how many there are."""
    found: dict[int, dict[str, float]] = {}
    for atoms in ATOMS:
        peaks = {}
        for count in MOLECULES:
            table = write_table(folder / "in.csv", [chain(atoms)], count)
            peaks[f"predict {count}"], rows = predicted(run, table, folder / "out.csv")
            assert [row["status"] for row in rows] == ["ok"] * count, rows[0]
        peaks["maps"] = took((sys.executable, "-c", MAPS, run, chain(atoms), atoms)).peak
        for count in MOLECULES:
            if count == 1 or count * atoms**2 <= MOST_PAIRS:
                peaks[f"train {count}"] = took((sys.executable, "-c", STEPS, chain(atoms), count)).peak
        found[atoms] = peaks
    return found


def by_rows(run: Path, folder: Path, counts: list[int]) -> dict[int, float]:
    """Peaks by the rows of a table of the NCI molecules that come with RDKit."""
    lines = (Path(RDConfig.RDDataDir) / "NCI" / "first_5K.smi").read_text(encoding="utf-8").splitlines()
    smiles = [line.split("\t")[0] for line in lines if line.strip()]
    found = {}
    for count in counts:
        table = write_table(folder / "in.csv", smiles, count)
        out = folder / "out.csv"
        found[count] = took((*MOLATTN, "predict", run, table, "-o", out, "--force", "--quiet")).peak
        with open(out, encoding="utf-8") as file:
            assert sum(1 for _ in file) == count + 1, "rows are missing"
    return found


def too_large_is_an_error_in_its_row(run: Path, folder: Path) -> bool:
    """Whether a molecule over the limit of atoms costs its row and no other."""
    table = write_table(folder / "in.csv", ["CCO", chain(1001), "CCN"], 3)
    _, rows = predicted(run, table, folder / "out.csv")
    return [row["status"] for row in rows] == ["ok", "error", "ok"] and "1,001 atoms" in rows[1]["error"]


def main() -> int:
    """Measure, print the tables and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs=2, default=[10_000, 100_000])
    parser.add_argument("--limit", type=float, default=2.0, help="GiB that one molecule of any size may take")
    parser.add_argument("-o", "--output", type=Path, default=Path("memory.json"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = folder / "run"
        train = (*MOLATTN, "train", "--dataset", "esol", "--epochs", "1", "-q", "-o", run)
        took(train)
        rows_found = by_rows(run, folder, options.rows)
        atoms_found = by_atoms(run, folder)
        refused = too_large_is_an_error_in_its_row(run, folder)
    where = machine(("torch", "rdkit"))
    names = [*(f"predict {n}" for n in MOLECULES), "maps", *(f"train {n}" for n in MOLECULES)]
    of = [f"of {n}" for n in MOLECULES]
    titles = ["atoms", *(f"prediction {n}" for n in of), "every map of 1", *(f"a batch of training {n}" for n in of)]
    rows = [(atoms, *(f"{peaks[n]:,.0f}" if n in peaks else "" for n in names)) for atoms, peaks in atoms_found.items()]
    print("Peak memory in MiB:\n")
    print(markdown(titles, rows))
    print()
    print(markdown(("rows of a table", "peak MiB"), [(f"{n:,}", f"{peak:,.0f}") for n, peak in rows_found.items()]))
    print(f"\n1,001 atoms: {'an error in its row' if refused else 'NOT REFUSED'}. {in_words(where)}")
    results = {"atoms": atoms_found, "rows": rows_found, "too large is an error in its row": refused}
    save(options.output, "memory", {"limit": options.limit}, results, where)
    few, many = rows_found.values()
    alone = [peaks[what] for peaks in atoms_found.values() for what in ("predict 64", "maps", "train 1")]
    good = refused and many < 1.25 * few and max(alone) < 1024 * options.limit
    print("good" if good else "NOT GOOD")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
