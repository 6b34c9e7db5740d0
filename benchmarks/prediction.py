"""Prediction speed from CSV to CSV, `molattn predict` and `chemprop predict`, and the time of each stage.

    python benchmarks/prediction.py                       # five rounds, then the stages of one prediction
    python benchmarks/prediction.py --peers FOLDER --rounds 9 -o prediction.json
    python benchmarks/prediction.py --no-peers
    python benchmarks/prediction.py --csv lipophilicity.csv --column smiles     # and then the molecules of a table

The molecules are those of the NCI in RDKit's data, then those of the tables of `--csv`, without those that RDKit cannot
read, for which chemprop fails. Each command predicts with a model that was trained for a few epochs on ESOL with the
default settings, in a process of its own on one thread, in turns; chemprop also with its C++ featurizer. The start-up
time is subtracted by a second run with one molecule: rate = (n - 1) / (time of n - time of 1) in each round. The stages
are CPU time within one process.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from commands import MOLATTN, CompletedCommand, run, train_chemprop
from peers import FOLDER
from rdkit import Chem, rdBase
from report import describe_machine, format_spread, machine, markdown, save_results, spread
from tables import nci_smiles, read_rows, write_numbered

REPEATS = 5
"""How often each stage is timed; the result is the median."""

Commands = dict[str, Callable[[Path], Sequence[object]]]


def readable(smiles: Sequence[str]) -> list[str]:
    """The SMILES that RDKit can read."""
    with rdBase.BlockLogs():
        return [text for text in smiles if Chem.MolFromSmiles(text) is not None]


def molattn_commands(folder: Path) -> Commands:
    """molattn with three models: from its base model, from scratch with descriptors, and with boosted trees."""
    commands: Commands = {}
    for title, model, options in (
        ("molattn", folder / "run", ()),
        ("molattn, from scratch", folder / "scratch", ("--base", "none")),
        ("molattn, with trees", folder / "trees", ("--with-trees",)),
    ):
        train = (*MOLATTN, "train", "--dataset", "esol", "--epochs", "2", "-q", "-o", model, *options)
        run(train)
        predict = (*MOLATTN, "predict", model, "-o", folder / "ours.csv", "--force")
        commands[title] = lambda table, predict=predict: (*predict, table)
    return commands


def chemprop_commands(folder: Path, peers: Path) -> Commands:
    """chemprop with a model that is trained first, with both of its featurizers."""
    chemprop, model = train_chemprop(folder, peers)
    options = ("--model-paths", model, "-s", "smiles", "--accelerator", "cpu", "-o", folder / "theirs.csv")

    def plain(table: Path) -> Sequence[object]:
        return (chemprop, "predict", *options, "-i", table)

    return {
        "chemprop": plain,
        "chemprop, C++ featurizer": lambda table: (*plain(table), "--use-cuikmolmaker-featurization"),
    }


def seconds_of(work: Callable[[], object]) -> float:
    """CPU seconds, the median of `REPEATS` calls."""
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return spread(times)["median"]


def time_stages(run_folder: Path, table: Path, output: Path) -> list[tuple[str, float]]:
    """CPU seconds of the stages of one prediction of a table; parsing by RDKit alone is first."""
    import torch

    import molattn
    from molattn.data.store.batches import batches_by_size
    from molattn.data.store.molecule_store import molecule_sizes, select_molecules
    from molattn.data.tables.readers import open_stream
    from molattn.data.tables.row_stream import CHUNK_SIZE
    from molattn.data.tables.writers import NewColumn, output_format
    from molattn.models.graph_model import GraphModel
    from molattn.models.predict import MAX_BATCH_MOLECULES

    torch.set_num_threads(1)
    predictor = molattn.load(run_folder)
    model = predictor.model
    assert isinstance(model, GraphModel)

    def read_table() -> list:
        with open_stream(table) as stream:
            return list(stream.chunks)

    chunks = read_table()
    smiles = [str(text) for chunk in chunks for text in chunk.column(1)]
    molecules = model.read(smiles, predictor.read_options)
    parts = [molecules[i : i + CHUNK_SIZE] for i in range(0, len(molecules), CHUNK_SIZE)]
    rows = [(part, batch) for part in parts for batch in batches_by_size(molecule_sizes(part), MAX_BATCH_MOLECULES)]

    def collated() -> list:
        return [model.collate(select_molecules(part, batch)) for part, batch in rows]

    def predicted() -> list:
        with closing(predictor.predict_rows(smiles)) as rows:
            return list(rows)

    batches, predictions = collated(), predicted()
    with torch.inference_mode():
        attention = seconds_of(lambda: [model.forward_features(batch) for batch in batches])
        whole = seconds_of(lambda: [model(batch) for batch in batches])

    def written() -> None:
        with open_stream(table) as stream, open(output, "wb") as file:
            writer = output_format(output, stream, [NewColumn("y", "float64")]).writer(file)
            start = 0
            for chunk in chunks:
                rows = predictions[start : start + len(chunk)]
                writer.write(chunk, [[row.values[0] for row in rows]])
                start += len(chunk)
            writer.close()

    parsing = seconds_of(lambda: [Chem.MolFromSmiles(text) for text in smiles])
    reading, collating = seconds_of(lambda: model.read(smiles, predictor.read_options)), seconds_of(collated)
    total = seconds_of(predicted)
    return [
        ("bare `MolFromSmiles`, for comparison", parsing),
        ("the table is read", seconds_of(read_table)),
        ("molecules from SMILES", reading),
        ("batches are collated", collating),
        ("model: atoms embedded, blocks of attention", attention),
        ("model: readout and head", max(0.0, whole - attention)),
        ("predictions row by row", max(0.0, total - reading - collating - whole)),
        ("the table is written", seconds_of(written)),
    ]


def time_commands(commands: Commands, one: Path, many: Path, count: int, rounds: int) -> dict[str, dict[str, Any]]:
    """For each command the seconds of both tables, the rates, and the ratios of molattn's rate to them."""
    times: dict[str, list[tuple[CompletedCommand, CompletedCommand]]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            times[name].append((run(command(one)), run(command(many))))
    cpu_rates = {name: [(count - 1) / (n.cpu - one.cpu) for one, n in pairs] for name, pairs in times.items()}
    wall_rates = {name: [(count - 1) / (n.wall - one.wall) for one, n in pairs] for name, pairs in times.items()}
    return {
        name: {
            "start": spread(one.cpu for one, _ in pairs),
            "whole": spread(n.cpu for _, n in pairs),
            "rate": spread(cpu_rates[name]),
            "wall_rate": spread(wall_rates[name]),
            "ratio": spread(a / b for a, b in zip(cpu_rates["molattn"], cpu_rates[name], strict=True)),
            "wall_ratio": spread(a / b for a, b in zip(wall_rates["molattn"], wall_rates[name], strict=True)),
        }
        for name, pairs in times.items()
    }


def print_report(
    title: str, count: int, results: dict[str, dict[str, Any]], stages: Sequence[tuple[str, float]]
) -> None:
    """Print both tables of a set of molecules."""
    columns = ("", "one molecule, CPU s", f"{count:,} molecules, CPU s", "molecules a CPU second", "a wall second")
    rows = [
        (name, *(format_spread(of[key], 0 if key.endswith("rate") else 2) for key in of))
        for name, of in results.items()
    ]
    print(f"{title}\n\n{markdown((*columns, 'molattn times its rate, CPU', 'wall'), rows)}\n")
    total = sum(seconds for _, seconds in stages[1:])
    rows = [
        (stage, f"{1e6 * seconds / count:.0f}", f"{seconds / total:.0%}" if i else "")
        for i, (stage, seconds) in enumerate(stages)
    ]
    rows.append(("all stages", f"{1e6 * total / count:.0f}", "100%"))
    print(markdown(("stage", "us a molecule", "share"), rows), end="\n\n")


def main() -> None:
    """Time the commands in turn, then the stages; print both tables of each set of molecules and save the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--csv", type=Path, nargs="+", default=[], metavar="TABLE", help="further tables to predict")
    parser.add_argument("--column", default="smiles", help="the column of SMILES in these tables")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peers", type=Path, default=FOLDER, help="folder with the environments of other projects")
    parser.add_argument("--no-peers", action="store_true", help="only molattn")
    parser.add_argument("-o", "--output", type=Path, default=Path("prediction.json"))
    options = parser.parse_args()
    sets = {"NCI": readable(nci_smiles())}
    sets |= {path.stem: readable([row[options.column] for row in read_rows(path)]) for path in options.csv}
    results = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        commands = molattn_commands(folder) | ({} if options.no_peers else chemprop_commands(folder, options.peers))
        for title, smiles in sets.items():
            one, many = write_numbered(folder / "one.csv", smiles[:1]), write_numbered(folder / "many.csv", smiles)
            times = time_commands(commands, one, many, len(smiles), options.rounds)
            stages = time_stages(folder / "run", many, folder / "stages.csv")
            print_report(title, len(smiles), times, stages)
            per_molecule = {stage: 1e6 * seconds / len(smiles) for stage, seconds in stages}
            results[title] = {"molecules": len(smiles), "commands": times, "stages_us": per_molecule}
    where = machine(("torch", "rdkit"))
    print(f"Medians and quartiles of {options.rounds} rounds. {describe_machine(where)}")
    save_results(options.output, "prediction", {"rounds": options.rounds}, results, where)


if __name__ == "__main__":
    main()
