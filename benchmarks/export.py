"""Start-up and rate of `molattn predict` from CSV to CSV with torch, and with the exported model in ONNX Runtime.

    python benchmarks/export.py                           # five rounds; needs the extra onnx
    python benchmarks/export.py --rounds 9 -o export.json
    python benchmarks/export.py --page docs/results/export.md

The molecules are those of the NCI in RDKit's data. Each model is trained for two epochs on ESOL, exported, and predicts
in a process of its own on one thread, in turns within each round: by torch with the kernels in C, by torch alone
(MOLATTN_BACKEND without "compiled"), and by ONNX Runtime. A start is the prediction of one molecule; rate = (n - 1) /
(time of n - time of 1).
"""

import argparse
import csv
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from commands import MOLATTN, CompletedCommand, run
from report import describe_machine, format_spread, machine, markdown, save_results, spread
from tables import nci_smiles, write_numbered

MODELS = {
    "molattn": ("--set", "data.molecule_featurizers=[]"),
    "molattn, five models": ("--set", "data.molecule_featurizers=[]", "--ensemble-size", "5"),
    "GRIT": ("--preset", "grit"),
}
"""The options of the trainings, by the title of the model."""

TORCH, ALONE, ONNX = ENGINES = ("torch, kernels in C", "torch alone", "ONNX Runtime")
TITLE = "# Exported models"
PACKAGES = ("torch", "onnxruntime", "rdkit")


def command(engine: str, model: Path, table: Path, output: Path) -> Sequence[object]:
    """`molattn predict` by one of `ENGINES`."""
    words = (*MOLATTN, "predict", model, table, "-o", output, "--force", "-q")
    if engine == ALONE:
        return ("env", "MOLATTN_BACKEND=chunked,fused,reference", *words)
    return (*words, "--engine", "onnx") if engine == ONNX else words


def predictions(path: Path) -> list[float]:
    """The column of the predictions."""
    with path.open(newline="", encoding="utf-8") as file:
        return [float(row["log_solubility_pred"]) for row in csv.DictReader(file) if row["status"] == "ok"]


def measure(folder: Path, title: str, smiles: Sequence[str], rounds: int) -> dict[str, Any]:
    """The figures of one model: export, files, and start and rate of each engine."""
    model, one, many = folder / "run", folder / "one.csv", folder / "many.csv"
    run([*MOLATTN, "train", "--dataset", "esol", "--epochs", "2", "-q", "-o", model, *MODELS[title]])
    write_numbered(one, smiles[:1])
    write_numbered(many, smiles)
    exported = run([*MOLATTN, "export", model, "-q", "--force"])
    outputs = {engine: folder / f"{i}.csv" for i, engine in enumerate(ENGINES)}
    times: dict[tuple[str, Path], list[CompletedCommand]] = {(e, t): [] for e in ENGINES for t in (one, many)}
    for engine, table in times:
        run(command(engine, model, table, outputs[engine]))  # reads the files from disk into the cache
    expected, *others = (predictions(output) for output in outputs.values())
    for _ in range(rounds):
        for (engine, table), found in times.items():
            found.append(run(command(engine, model, table, outputs[engine])))
    result: dict[str, Any] = {
        "export": exported.cpu,
        "bytes": (model / "model.onnx").stat().st_size,
        "difference": max(abs(a - b) for other in others for a, b in zip(expected, other, strict=True)),
    }
    for engine in ENGINES:
        starts, ends = times[engine, one], times[engine, many]
        result[engine] = {
            "start": spread(t.cpu for t in starts),
            "rate": spread((len(smiles) - 1) / (b.cpu - a.cpu) for a, b in zip(starts, ends, strict=True)),
            "all": spread(t.wall for t in ends),
            "peak": spread(t.peak for t in ends),
        }
    return result


def table(results: dict[str, dict[str, Any]]) -> str:
    """A row for each model and engine."""
    rows = [
        (
            title,
            engine,
            format_spread(found[engine]["start"]),
            format_spread(found[engine]["rate"], 0),
            format_spread(found[engine]["all"]),
            format_spread(found[engine]["peak"], 0),
        )
        for title, found in results.items()
        for engine in ENGINES
    ]
    head = ("model", "engine", "start, CPU s", "molecules a CPU second", "the table, wall s", "memory, MiB")
    return markdown(head, rows)


def files(results: dict[str, dict[str, Any]]) -> str:
    """A row for the file of each model."""
    rows = [
        (title, f"{found['export']:.1f}", f"{found['bytes'] / 1e6:.1f}", f"{found['difference']:.0e}")
        for title, found in results.items()
    ]
    return markdown(("model", "export, CPU s", "file, MB", "largest difference, log10(mol/L)"), rows)


def summary(results: dict[str, dict[str, Any]]) -> str:
    """What the figures of the first model say."""
    found = next(iter(results.values()))
    start = found[ONNX]["start"]["median"] / found[TORCH]["start"]["median"]
    fast, alone = (found[ONNX]["rate"]["median"] / found[e]["rate"]["median"] for e in (TORCH, ALONE))
    return (
        f"With ONNX Runtime `molattn predict` starts in {start:.2f} times the CPU time that it "
        "takes with torch. Once it runs,\n"
        f"it predicts {fast:.2f} times as many molecules a second as torch with the kernels in C, "
        f"and {alone:.2f} times as many\n"
        "as torch alone."
    )


def page(results: dict[str, dict[str, Any]], options: argparse.Namespace, n: int, where: Any) -> str:
    """docs/results/export.md."""
    return f"""{TITLE}

{summary(results)}

`python benchmarks/export.py --rounds {options.rounds} --page docs/results/export.md`, {n:,} molecules of the NCI:

{table(results)}

Medians and quartiles of {options.rounds} rounds. {describe_machine(where)}

- Each model was trained on ESOL for two epochs at the defaults, without descriptors. A start is the prediction of one
  molecule; it is subtracted from the rate.
- GRIT has no kernels in C for its blocks, only for parts of them.
- Reading SMILES with RDKit, tables and everything else but the model is the same code.

The files:

{files(results)}

The difference is that of the predictions of all molecules and engines. How to export a model:
[export](../guide/export.md).
"""


def main() -> None:
    """Measure all models, print the tables and save the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--molecules", type=int, default=5000)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    parser.add_argument("-o", "--output", type=Path, default=Path("export.json"))
    parser.add_argument("--page", type=Path, help="write the page of the documentation here")
    options = parser.parse_args()
    smiles = nci_smiles()[: options.molecules]
    results = {}
    for title in options.models:
        print(title, file=sys.stderr)
        with tempfile.TemporaryDirectory() as name:
            results[title] = measure(Path(name), title, smiles, options.rounds)
    where = machine(PACKAGES)
    print(table(results), files(results), sep="\n\n")
    save_results(options.output, "export", {"rounds": options.rounds, "molecules": len(smiles)}, results, where)
    if options.page is not None:
        options.page.write_text(page(results, options, len(smiles), where), encoding="utf-8")


if __name__ == "__main__":
    main()
