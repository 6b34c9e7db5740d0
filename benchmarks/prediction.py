"""From CSV to CSV: molecules a second that `molattn predict` answers beside `chemprop predict`, and where time goes.

    python benchmarks/prediction.py                       # five rounds, then the stages of one prediction
    python benchmarks/prediction.py --peers FOLDER --rounds 9 -o prediction.json
    python benchmarks/prediction.py --no-peers
    python benchmarks/prediction.py --csv lipophilicity.csv --column smiles     # and then the molecules of a table

The molecules are those of the NCI that come with RDKit, then those of the tables named by `--csv`, as far as RDKit can
read them: chemprop stops at one that it cannot. Each side predicts with a model that it trained for a few epochs on
ESOL at its defaults, in a process of its own, one thread each, in turns; chemprop also with its C++ featurizer. What a
start takes is left out by a second run, of one molecule: rate = (n - 1) / (time of n - time of 1), round by round. The
stages are CPU time within one process.
"""

import argparse
import csv
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from peers import FOLDER, python_of
from processes import Took, took
from rdkit import Chem, RDConfig, rdBase
from report import in_words, machine, markdown, save, shown, spread

MOLATTN = (sys.executable, "-c", "from molattn.cli.main import main; main()")
ESOL = Path(__file__).resolve().parents[1] / "datasets" / "esol.csv"
TIMES = 5
"""How often each stage is timed; the median counts."""

Commands = dict[str, Callable[[Path], Sequence[object]]]


def nci() -> list[str]:
    """The SMILES of the NCI molecules that RDKit includes."""
    lines = (Path(RDConfig.RDDataDir) / "NCI" / "first_5K.smi").read_text(encoding="utf-8").splitlines()
    return [line.split("\t")[0] for line in lines if line.strip()]


def of_table(path: Path, column: str) -> list[str]:
    """The SMILES of a table."""
    with path.open(encoding="utf-8", newline="") as file:
        return [row[column] for row in csv.DictReader(file)]


def readable(smiles: Sequence[str]) -> list[str]:
    """The SMILES that RDKit can read."""
    with rdBase.BlockLogs():
        return [text for text in smiles if Chem.MolFromSmiles(text) is not None]


def write_table(path: Path, smiles: Sequence[str]) -> Path:
    """A table of numbered molecules."""
    path.write_text("number,smiles\n" + "".join(f"{i},{text}\n" for i, text in enumerate(smiles)))
    return path


def ours(folder: Path) -> Commands:
    """molattn, with a model that is trained here from its base, and with one from scratch, which has descriptors."""
    commands: Commands = {}
    for what, run, options in (
        ("molattn", folder / "run", ()),
        ("molattn, from scratch", folder / "scratch", ("--base", "none")),
    ):
        train = (*MOLATTN, "train", "--dataset", "esol", "--epochs", "2", "-q", "-o", run, *options)
        subprocess.run(train, check=True)
        predict = (*MOLATTN, "predict", run, "-o", folder / "ours.csv", "--force")
        commands[what] = lambda table, predict=predict: (*predict, table)
    return commands


def chemprops(folder: Path, peers: Path) -> Commands:
    """chemprop, with a model that is trained here, with both of its featurizers."""
    chemprop, run = python_of("chemprop", peers).with_name("chemprop"), folder / "chemprop"
    # Three epochs are the fewest that it takes.
    train = [chemprop, "train", "-i", ESOL, "-s", "smiles", "--epochs", "3", "--accelerator", "cpu", "-o", run]
    subprocess.run(list(map(str, train)), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    model = ("--model-paths", run / "model_0" / "best.pt", "-s", "smiles", "--accelerator", "cpu")
    plain = (chemprop, "predict", *model, "-o", folder / "theirs.csv", "-i")
    return {
        "chemprop": lambda table: (*plain, table),
        "chemprop, C++ featurizer": lambda table: (*plain, table, "--use-cuikmolmaker-featurization"),
    }


def seconds_of(work: Callable[[], object]) -> float:
    """CPU seconds, the median of several times."""
    times = []
    for _ in range(TIMES):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return spread(times)["median"]


def stages(run: Path, table: Path, out: Path) -> list[tuple[str, float]]:
    """What one prediction of a table spends its CPU time on, in seconds; the floor that parsing is comes first."""
    import torch

    import molattn
    from molattn.data.store.batches import batches_by_size
    from molattn.data.store.molecule_store import molecule_sizes, select_molecules
    from molattn.data.tables.readers import open_stream
    from molattn.data.tables.row_stream import CHUNK_SIZE
    from molattn.data.tables.writers import NewColumn, output_format
    from molattn.models.predict import MAX_BATCH_MOLECULES

    torch.set_num_threads(1)
    predictor = molattn.load(run)
    model = predictor.model

    def read_table() -> list:
        with open_stream(table) as stream:
            return list(stream.chunks)

    chunks = read_table()
    smiles = [str(text) for chunk in chunks for text in chunk.column(1)]
    molecules = predictor._read(smiles)
    parts = [molecules[i : i + CHUNK_SIZE] for i in range(0, len(molecules), CHUNK_SIZE)]
    rows = [(part, batch) for part in parts for batch in batches_by_size(molecule_sizes(part), MAX_BATCH_MOLECULES)]

    def collated() -> list:
        return [model.collate(select_molecules(part, batch)) for part, batch in rows]

    def answered() -> list:
        with closing(predictor.predict_rows(smiles)) as made:
            return list(made)

    batches, answers = collated(), answered()
    with torch.inference_mode():
        attention = seconds_of(lambda: [model.forward_features(batch) for batch in batches])
        whole = seconds_of(lambda: [model(batch) for batch in batches])

    def written() -> None:
        with open_stream(table) as stream, open(out, "wb") as file:
            writer = output_format(out, stream, [NewColumn("y", "float64")]).writer(file)
            start = 0
            for chunk in chunks:
                here = answers[start : start + len(chunk)]
                writer.write(chunk, [[row.values[0] for row in here]])
                start += len(chunk)
            writer.close()

    parsing = seconds_of(lambda: [Chem.MolFromSmiles(text) for text in smiles])
    reading, padding = seconds_of(lambda: predictor._read(smiles)), seconds_of(collated)
    everything = seconds_of(answered)
    return [
        ("bare `MolFromSmiles`, for comparison", parsing),
        ("the table is read", seconds_of(read_table)),
        ("molecules from SMILES", reading),
        ("batches are put together", padding),
        ("model: atoms embedded, blocks of attention", attention),
        ("model: readout and head", max(0.0, whole - attention)),
        ("answers row by row", max(0.0, everything - reading - padding - whole)),
        ("the table is written", seconds_of(written)),
    ]


def measured(sides: Commands, one: Path, many: Path, count: int, rounds: int) -> dict[str, dict[str, Any]]:
    """By side, the seconds of both tables, the rates, and how many times a side's rate molattn's is."""
    times: dict[str, list[tuple[Took, Took]]] = {what: [] for what in sides}
    for _ in range(rounds):
        for what, command in sides.items():
            times[what].append((took(command(one)), took(command(many))))
    rates = {what: [(count - 1) / (n.cpu - one.cpu) for one, n in taken] for what, taken in times.items()}
    walls = {what: [(count - 1) / (n.wall - one.wall) for one, n in taken] for what, taken in times.items()}
    return {
        what: {
            "start": spread(one.cpu for one, _ in taken),
            "whole": spread(n.cpu for _, n in taken),
            "rate": spread(rates[what]),
            "wall_rate": spread(walls[what]),
            "ours_to_it": spread(a / b for a, b in zip(rates["molattn"], rates[what], strict=True)),
            "ours_to_it_wall": spread(a / b for a, b in zip(walls["molattn"], walls[what], strict=True)),
        }
        for what, taken in times.items()
    }


def report(what: str, count: int, figures: dict[str, dict[str, Any]], found: Sequence[tuple[str, float]]) -> None:
    """Print both tables of a set of molecules."""
    columns = ("", "one molecule, CPU s", f"{count:,} molecules, CPU s", "molecules a CPU second", "by the clock")
    rows = [(side, *(shown(of[key], 0 if "rate" in key else 2) for key in of)) for side, of in figures.items()]
    print(f"{what}\n\n{markdown((*columns, 'molattn times its rate', 'by the clock'), rows)}\n")
    total = sum(seconds for _, seconds in found[1:])
    print(markdown(("stage", "us a molecule", "share"), [
        *((stage, f"{1e6 * took / count:.0f}", f"{took / total:.0%}" if i else "")
          for i, (stage, took) in enumerate(found)),
        ("all stages", f"{1e6 * total / count:.0f}", "100%"),
    ]), end="\n\n")  # fmt: skip


def main() -> None:
    """Predict in turns, then look at the stages; print both tables of each set of molecules and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--csv", type=Path, nargs="+", default=[], metavar="TABLE", help="molecules to predict, too")
    parser.add_argument("--column", default="smiles", help="that has the SMILES in these tables")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peers", type=Path, default=FOLDER, help="where the environments of the peers lie")
    parser.add_argument("--no-peers", action="store_true", help="molattn alone")
    parser.add_argument("-o", "--output", type=Path, default=Path("prediction.json"))
    options = parser.parse_args()
    sets = {"NCI": readable(nci())} | {path.stem: readable(of_table(path, options.column)) for path in options.csv}
    results = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sides = ours(folder) | ({} if options.no_peers else chemprops(folder, options.peers))
        for what, smiles in sets.items():
            one, many = write_table(folder / "one.csv", smiles[:1]), write_table(folder / "many.csv", smiles)
            figures = measured(sides, one, many, len(smiles), options.rounds)
            found = stages(folder / "run", many, folder / "stages.csv")
            report(what, len(smiles), figures, found)
            per_molecule = {stage: 1e6 * seconds / len(smiles) for stage, seconds in found}
            results[what] = {"molecules": len(smiles), "commands": figures, "stages_us": per_molecule}
    where = machine(("torch", "rdkit"))
    print(f"Medians and quartiles of {options.rounds} rounds. {in_words(where)}")
    save(options.output, "prediction", {"rounds": options.rounds}, results, where)


if __name__ == "__main__":
    main()
