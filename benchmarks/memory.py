"""Peak memory of molattn as a function of the atoms of a molecule, the molecules of a batch, and the rows of a table.

    python benchmarks/memory.py
    python benchmarks/memory.py --rows 10000 1000000 -o memory.json

Each value is the peak resident memory of a process of its own on one thread, including the interpreter and its
libraries: `molattn predict` from a table to a table, all attention maps of one molecule, or two training steps of the
default model with AdamW. The exit code is 1 if any of them fails or takes more than `--limit` GiB, or if memory grows
by more than a quarter from the shorter table to the ten times longer one.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from commands import MOLATTN, run
from report import describe_machine, machine, markdown, save_results
from tables import nci_smiles, read_rows, write_numbered

ATOMS = (10, 100, 300, 1000)
MOLECULES = (1, 8, 64)
MAX_PAIRS = 64 * 100**2
"""Largest number of pairs of atoms in a training batch, 3.5 GB without recomputation, except for single molecules."""

ATTENTION_MAPS = """
import sys, torch, molattn
torch.set_num_threads(1)
weights = molattn.load(sys.argv[1]).attention(sys.argv[2]).weights
assert weights.shape[-1] == int(sys.argv[3])
"""
TRAINING_STEPS = """
import sys, torch
from molattn.chem import molecule_graph
from molattn.models.config import GraphModelConfig
from molattn.models.base import build_model
torch.set_num_threads(1)
model = build_model(GraphModelConfig(), 1)
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
    """The SMILES of a molecule with that many atoms."""
    return ("CCO" * atoms)[:atoms]


def predict(model: Path, table: Path, output: Path) -> tuple[float, list[dict[str, str]]]:
    """The peak memory of `molattn predict` in MiB, and the rows of its output."""
    peak = run((*MOLATTN, "predict", model, table, "-o", output, "--force", "--quiet")).peak
    return peak, read_rows(output)


def by_atoms(model: Path, folder: Path) -> dict[int, dict[str, float]]:
    """Peak memory by the number of atoms, by operation and number of molecules."""
    found: dict[int, dict[str, float]] = {}
    for atoms in ATOMS:
        peaks = {}
        for count in MOLECULES:
            table = write_numbered(folder / "in.csv", [chain(atoms)], count)
            peaks[f"predict {count}"], rows = predict(model, table, folder / "out.csv")
            assert [row["status"] for row in rows] == ["ok"] * count, rows[0]
        peaks["maps"] = run((sys.executable, "-c", ATTENTION_MAPS, model, chain(atoms), atoms)).peak
        for count in MOLECULES:
            if count == 1 or count * atoms**2 <= MAX_PAIRS:
                peaks[f"train {count}"] = run((sys.executable, "-c", TRAINING_STEPS, chain(atoms), count)).peak
        found[atoms] = peaks
    return found


def by_rows(model: Path, folder: Path, counts: list[int]) -> dict[int, float]:
    """Peak memory by the number of rows of a table of NCI molecules."""
    smiles, found = nci_smiles(), {}
    for count in counts:
        table = write_numbered(folder / "in.csv", smiles, count)
        found[count], rows = predict(model, table, folder / "out.csv")
        assert len(rows) == count, "rows are missing"
    return found


def too_large_is_an_error_in_its_row(model: Path, folder: Path) -> bool:
    """Whether a molecule over the limit of atoms is an error in its row, and the other rows are predicted."""
    table = write_numbered(folder / "in.csv", ["CCO", chain(1001), "CCN"])
    _, rows = predict(model, table, folder / "out.csv")
    return [row["status"] for row in rows] == ["ok", "error", "ok"] and "1,001 atoms" in rows[1]["error"]


def main() -> int:
    """Measure, print the tables and save the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs=2, default=[10_000, 100_000])
    parser.add_argument("--limit", type=float, default=2.0, help="GiB for one molecule of any size")
    parser.add_argument("-o", "--output", type=Path, default=Path("memory.json"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = folder / "run"
        run((*MOLATTN, "train", "--dataset", "esol", "--epochs", "1", "-q", "-o", model))
        rows_found = by_rows(model, folder, options.rows)
        atoms_found = by_atoms(model, folder)
        rejected = too_large_is_an_error_in_its_row(model, folder)
    where = machine(("torch", "rdkit"))
    names = [*(f"predict {n}" for n in MOLECULES), "maps", *(f"train {n}" for n in MOLECULES)]
    titles = ["atoms", *(f"prediction of {n}" for n in MOLECULES), "attention maps of 1"]
    titles += [f"training batch of {n}" for n in MOLECULES]
    rows = [(atoms, *(f"{peaks[n]:,.0f}" if n in peaks else "" for n in names)) for atoms, peaks in atoms_found.items()]
    print("Peak memory in MiB:\n")
    print(markdown(titles, rows))
    print()
    print(markdown(("rows of a table", "peak MiB"), [(f"{n:,}", f"{peak:,.0f}") for n, peak in rows_found.items()]))
    print(f"\n1,001 atoms: {'an error in its row' if rejected else 'NOT REJECTED'}. {describe_machine(where)}")
    results = {"atoms": atoms_found, "rows": rows_found, "too large is an error in its row": rejected}
    save_results(options.output, "memory", {"limit": options.limit}, results, where)
    few, many = rows_found.values()
    alone = [peaks[what] for peaks in atoms_found.values() for what in ("predict 64", "maps", "train 1")]
    good = rejected and many < 1.25 * few and max(alone) < 1024 * options.limit
    print("good" if good else "NOT GOOD")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
