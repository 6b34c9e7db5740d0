"""Attributions against the true contributions of atoms, on published splits, with those of other projects.

    python benchmarks/attribution_truths.py DATA -o folder                 # all tasks and models
    python benchmarks/attribution_truths.py DATA -o folder --tasks crippen --models molattn lightgbm
    python benchmarks/attribution_truths.py --page docs/results/attribution_truths.md

DATA has the files of two benchmarks. `crippen_smiles.csv` and `crippen_traintest_indices.npz`: Crippen's log P of 1,127
molecules with the split of Sanchez-Lengeling et al. (2020); the truth is RDKit's terms, those of hydrogens added to
their neighbors. `ibenchmark/`: Matveieva and Polishchuk (2021), with the atoms that decide: the count of nitrogens, the
count of amides, and a pair of a donor and an acceptor at 9 to 10 angstrom, a class.

Each model is trained on the training molecules alone, a tenth of them for validation, with its default settings:
`molattn train --base nci`, `--preset additive`, `chemprop train`, and LightGBM on counts of Morgan fragments of
radius 2. Attributions: all methods of molattn; Myerson values of chemprop (exact up to 12 atoms, sampled above); and
TreeSHAP, where the value of a fragment is shared by its atoms. Up to --max-molecules test molecules, drawn with seed 0;
Myerson values, which take minutes for ten molecules, of --max-myerson among them.

For Crippen's log P there are two references: the default method with the exact log P of each fragment in the place of a
prediction, and the truth with ties broken at random.

For Crippen's terms: Kendall's tau-b, and the overlap of Rasmussen, Christensen and Jensen (2023), the cosine of the two
vectors. Elsewhere: AUROC of the values for the atoms that decide. Both are computed within each molecule; the intervals
are percentile bootstrap intervals of the mean over molecules. Finished trainings in the folder are used again.
"""

import argparse
import csv
import json
import zipfile
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from commands import MOLATTN, run
from peers import FOLDER, python_of
from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator
from report import describe_machine, machine, markdown, save_results
from scipy.stats import kendalltau
from sklearn.metrics import roc_auc_score

import molattn
from molattn.chem import atom_contributions, molecule_graph
from molattn.errors import MolattnError
from molattn.explain.fragment_shapley import fragment_shapley
from molattn.models.artifact import Artifact
from molattn.models.base import build_model
from molattn.models.config import GraphModelConfig
from molattn.models.scaler import TargetScaler

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "attribution_truths.json"
METHODS = ("fragment-shapley", "additive", "occlusion", "integrated-gradients", "grad-attention", "attention")
TASKS = ("crippen", "N", "amide", "pharmacophore")
Values = list[np.ndarray | None]


class TaskData(NamedTuple):
    """The table of a task, with the column split, and its test molecules with the truth of each atom."""

    table: Path
    smiles: list[str]
    truth: list[np.ndarray]
    binary: bool


def _crippen(data: Path) -> Iterator[tuple[str, str, float, np.ndarray]]:
    with (data / "crippen_smiles.csv").open(newline="") as file:
        smiles = [row["smiles"] for row in csv.DictReader(file)]
    split = np.load(data / "crippen_traintest_indices.npz")
    for side in ("train", "test"):
        for i in split[f"{side}_index"]:
            terms = atom_contributions(smiles[i], "log_p")
            yield side, smiles[i], float(terms.sum()), terms


def _ibenchmark(data: Path, name: str) -> Iterator[tuple[str, str, float, np.ndarray]]:
    for side in ("train", "test"):
        stem = f"{name}_{side}" if name == "pharmacophore" else f"{name}_{side}_lbl"
        with zipfile.ZipFile(data / "ibenchmark" / f"{stem}.zip") as archive:
            content = archive.read(f"{stem}.sdf")
        for mol in Chem.ForwardSDMolSupplier(BytesIO(content)):
            labels = mol.GetProp("lbls")
            n = mol.GetNumAtoms()
            truth = np.zeros(n) if labels == "NA" else np.array([float(x) for x in labels.split(",")])
            assert len(truth) == n, "an atom was removed"
            smiles = Chem.MolToSmiles(mol)
            order = json.loads(mol.GetProp("_smilesAtomOutputOrder").replace(",]", "]"))
            yield side, smiles, float(mol.GetProp("activity")), truth[order]


def prepare(data: Path, name: str, folder: Path, max_molecules: int) -> TaskData:
    """Write the table of a task: smiles, y and split, without the labels of the test molecules."""
    rows = list(_crippen(data) if name == "crippen" else _ibenchmark(data, name))
    train = [row for row in rows if row[0] == "train"]
    validation = set(np.random.default_rng(0).permutation(len(train))[: len(train) // 10].tolist())
    test = [row for row in rows if row[0] == "test" and np.ptp(row[3]) > 0]
    chosen = sorted(np.random.default_rng(0).permutation(len(test))[:max_molecules].tolist())
    binary = name == "pharmacophore"
    table = folder / f"{name}.csv"
    with table.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["smiles", "y", "split"])
        for i, (_, smiles, y, _) in enumerate(train):
            writer.writerow([smiles, int(y) if binary else y, "val" if i in validation else "train"])
        # chemprop and molattn require test rows; these are the validation molecules again, and no score is read.
        for i in sorted(validation)[:20]:
            writer.writerow([train[i][1], int(train[i][2]) if binary else train[i][2], "test"])
    return TaskData(table, [test[i][1] for i in chosen], [test[i][3] for i in chosen], binary)


def _molattn(task: TaskData, folder: Path, preset: str) -> dict[str, Values]:
    output = folder / f"{task.table.stem}-{preset}"
    if not (output / "metrics.json").is_file():
        columns = ("--smiles-column", "smiles", "--target-columns", "y", "--split-column", "split")
        base = ("--base", "nci") if preset == "molattn" else ()
        options = ("--preset", preset, *base, "--set", "training.faithfulness_molecules=0", "--duplicates", "keep")
        run([*MOLATTN, "train", task.table, *columns, *options, "-o", output, "--quiet", "--accelerator", "cpu"])
    predictor, found = molattn.load(output), {}
    for method in METHODS:
        try:
            found[f"{preset}: {method}"] = [
                predictor.attributions(smiles, method=method).values for smiles in task.smiles
            ]
        except MolattnError as error:
            print(f"{task.table.stem}, {preset}, {method}: {error}", flush=True)
    return found


def _chemprop(task: TaskData, folder: Path, peers: Path, max_molecules: int) -> dict[str, Values]:
    program, output = python_of("chemprop", peers).with_name("chemprop"), folder / f"{task.table.stem}-chemprop"
    model, device = output / "model_0" / "best.pt", ("--accelerator", "cpu", "--devices", "1")
    if not model.is_file():
        columns = ("--smiles-columns", "smiles", "--target-columns", "y", "--splits-column", "split")
        kind = ("-t", "classification" if task.binary else "regression")
        run([program, "train", "-i", task.table, *columns, *kind, *device, "-o", output])
    chosen = sorted(np.random.default_rng(0).permutation(len(task.smiles))[:max_molecules].tolist())
    smiles = folder / f"{task.table.stem}-molecules-{len(chosen)}.csv"
    smiles.write_text("\n".join(["smiles", *(task.smiles[i] for i in chosen)]) + "\n")
    out = folder / f"{task.table.stem}-myerson-{len(chosen)}.csv"
    explained = out.with_name(f"{out.stem}_myerson_explanation.npz")
    if not explained.is_file():
        words = ("predict", "-i", smiles, "--smiles-columns", "smiles", "--model-paths", model, "-o", out)
        # Exact values take exponential time: up to 20 atoms, the default, 226 molecules were not done in half an hour.
        run([program, *words, *device, "--callback", "myerson", "--callback-params", '{"sampling_threshold": 12}'])
    arrays = np.load(explained)
    values: Values = [None] * len(task.smiles)
    for k, i in enumerate(chosen):
        values[i] = arrays[f"arr_{k}"].reshape(-1)
    return {"chemprop: Myerson values": values}


def _fragments(smiles: str) -> tuple[dict[int, int], dict[int, list[np.ndarray]]]:
    """The counts of the Morgan fragments of a molecule, and the atoms of each of their occurrences."""
    mol = Chem.MolFromSmiles(smiles)
    output = rdFingerprintGenerator.AdditionalOutput()
    output.AllocateBitInfoMap()
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2)
    counts = generator.GetSparseCountFingerprint(mol, additionalOutput=output).GetNonzeroElements()
    distances = Chem.GetDistanceMatrix(mol)
    places = {
        code: [np.flatnonzero(distances[center] <= radius) for center, radius in found]
        for code, found in output.GetBitInfoMap().items()
    }
    return counts, places


def _lightgbm(task: TaskData, folder: Path) -> dict[str, Values]:  # noqa: ARG001
    import lightgbm

    with task.table.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["split"] != "test"]
    every = [_fragments(row["smiles"])[0] for row in rows]
    columns = {code: k for k, code in enumerate(sorted(set().union(*every)))}

    def matrix(counts: list[dict[int, int]]) -> np.ndarray:
        x = np.zeros((len(counts), len(columns)), np.float32)
        for i, found in enumerate(counts):
            for code, count in found.items():
                if code in columns:
                    x[i, columns[code]] = count
        return x

    y = np.array([float(row["y"]) for row in rows])
    model = lightgbm.LGBMClassifier if task.binary else lightgbm.LGBMRegressor
    booster = model(verbose=-1, n_jobs=1).fit(matrix(every), y).booster_
    found = []
    for smiles in task.smiles:
        counts, places = _fragments(smiles)
        contributions = np.asarray(booster.predict(matrix([counts]), pred_contrib=True))[0]
        values = np.zeros(Chem.MolFromSmiles(smiles).GetNumAtoms())
        for code, occurrences in places.items():
            for atoms in occurrences:
                if code in columns:
                    values[atoms] += contributions[columns[code]] / len(occurrences) / len(atoms)
        found.append(values)
    return {"LightGBM: TreeSHAP": found}


def _random(task: TaskData, folder: Path) -> dict[str, Values]:  # noqa: ARG001
    rng = np.random.default_rng(0)
    return {"random": [rng.normal(size=len(truth)) for truth in task.truth]}


class _ExactLogP(dict[str, np.ndarray]):
    """Crippen's log P of any SMILES, in the place of the outputs of a model."""

    def __contains__(self, smiles: object) -> bool:
        return True

    def __missing__(self, smiles: str) -> np.ndarray:
        return np.array([atom_contributions(smiles, "log_p").sum()])


def _exact(task: TaskData) -> dict[str, Values]:
    if task.table.stem != "crippen":
        return {}
    unused = build_model(GraphModelConfig(hidden_dim=8, num_layers=1, num_heads=2), 1).eval()
    artifact, log_p, rng = (
        Artifact(unused, TargetScaler.identity(1), ("y",), ("",)),
        _ExactLogP(),
        np.random.default_rng(0),
    )
    values: Values = [fragment_shapley(artifact, molecule_graph(smiles), 0, log_p).values for smiles in task.smiles]
    orders: Values = [truth + 1e-9 * rng.random(len(truth)) for truth in task.truth]
    return {"exact log P: fragment-shapley": values, "truth, ties at random": orders}


def _overlap(values: np.ndarray, truth: np.ndarray) -> float:
    norm = np.linalg.norm(values) * np.linalg.norm(truth)
    return float(values @ truth / norm) if norm else 0.0


def _tau(values: np.ndarray, truth: np.ndarray) -> float:
    result: Any = kendalltau(values, truth)
    return 0.0 if np.isnan(result.statistic) else float(result.statistic)


MEASURES: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "Kendall's tau": _tau,
    "overlap": _overlap,
    "AUROC": lambda values, truth: float(roc_auc_score(truth != 0, values)),
}


def measures_of(task: str) -> tuple[str, ...]:
    """The names of the measures of a task."""
    return ("Kendall's tau", "overlap") if task == "crippen" else ("AUROC",)


def summary(scores: list[float]) -> dict[str, float]:
    """The mean over molecules and its 95% bootstrap interval."""
    x, rng = np.array(scores), np.random.default_rng(0)
    means = x[rng.integers(len(x), size=(1000, len(x)))].mean(1)
    low, high = np.percentile(means, [2.5, 97.5])
    return {"mean": float(x.mean()), "low": float(low), "high": float(high), "molecules": len(x)}


def measure(arguments: argparse.Namespace, name: str) -> dict[str, Any]:
    """The scores of all requested models for a task."""
    task = prepare(arguments.data, name, arguments.output, arguments.max_molecules)
    models: dict[str, Callable[[], dict[str, Values]]] = {
        "molattn": lambda: _molattn(task, arguments.output, "molattn"),
        "additive": lambda: _molattn(task, arguments.output, "additive"),
        "chemprop": lambda: _chemprop(task, arguments.output, arguments.peers, arguments.max_myerson),
        "lightgbm": lambda: _lightgbm(task, arguments.output),
        "exact": lambda: _exact(task),
        "random": lambda: _random(task, arguments.output),
    }
    scores: dict[str, Any] = {}
    for model in arguments.models:
        for method, values in models[model]().items():
            pairs = [(v, t) for v, t in zip(values, task.truth, strict=True) if v is not None]
            scores[method] = {
                measure: summary([MEASURES[measure](v, t) for v, t in pairs]) for measure in measures_of(name)
            }
            print(name, method, scores[method], flush=True)
    return {"molecules": len(task.smiles), "scores": scores}


def table(results: dict[str, Any]) -> str:
    """A row for each method, a column for each measure of each task."""
    columns = [(task, measure) for task in TASKS if task in results for measure in measures_of(task)]
    methods = dict.fromkeys(method for result in results.values() for method in result["scores"])
    rows = []

    def cell(method: str, task: str, measure: str) -> str:
        found = results[task]["scores"].get(method, {}).get(measure)
        if not found:
            return ""
        count = found.get("molecules", results[task]["molecules"])
        fewer = "" if count == results[task]["molecules"] else f"; {count} molecules"
        return f"{found['mean']:.2f} ({found['low']:.2f} to {found['high']:.2f}{fewer})"

    for method in methods:
        rows.append([method.removeprefix("molattn: "), *(cell(method, *column) for column in columns)])
    return markdown(["method", *(f"{task}, {measure}" for task, measure in columns)], rows)


def unmeasured(results: dict[str, Any]) -> str:
    """The sentence about the tasks without Myerson values; empty if there are none."""
    tasks = [task for task in results if not any("Myerson" in method for method in results[task]["scores"])]
    if not tasks:
        return ""
    return f"\n\nMyerson values of chemprop take minutes for ten molecules; not measured for {', '.join(tasks)}."


def main() -> None:
    """Measure, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", type=Path)
    parser.add_argument("-o", "--output", type=Path, help="folder of the trainings")
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=TASKS)
    models = ["molattn", "additive", "chemprop", "lightgbm", "exact", "random"]
    parser.add_argument("--models", nargs="+", default=models, choices=models)
    parser.add_argument("--max-molecules", type=int, default=300)
    parser.add_argument("--max-myerson", type=int, default=40, help="molecules that chemprop explains")
    parser.add_argument("--peers", type=Path, default=FOLDER, help="folder of the environments of other projects")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--page", type=Path, help="the Markdown file to write")
    arguments = parser.parse_args()
    if bool(arguments.data) != bool(arguments.output) or not (arguments.data or arguments.page):
        parser.error("give DATA and --output, or --page alone")
    if arguments.data:
        arguments.output.mkdir(parents=True, exist_ok=True)
        results = json.loads(arguments.results.read_text())["results"] if arguments.results.is_file() else {}
        for name in arguments.tasks:
            found = measure(arguments, name)
            known = results.get(name, {"scores": {}})["scores"]
            results[name] = {**found, "scores": known | found["scores"]}
            save_results(arguments.results, "attribution_truths", {}, results, machine(("torch", "rdkit"), 1))
    if arguments.page:
        content = json.loads(arguments.results.read_text())
        counts = ", ".join(f"{result['molecules']:,} ({task})" for task, result in content["results"].items())
        arguments.page.write_text(
            PAGE.format(
                table=table(content["results"]),
                counts=counts,
                machine=describe_machine(content["machine"]),
                unmeasured=unmeasured(content["results"]),
            )
        )


PAGE = """# Attributions and the true contributions of atoms

Made by `python benchmarks/attribution_truths.py --page docs/results/attribution_truths.md`; its help describes the
data, the models and the measures. Means over test molecules, with 95% bootstrap intervals.

{table}

Rows without a project are methods of molattn's model from the base model nci; those of `additive` are of `--preset
additive`. Test molecules: {counts}.

The default method, `fragment-shapley`, has a high overlap with Crippen's terms and a low tau, and finds amides worse
than `additive` and `occlusion`: it attributes to an atom what it adds in the place of a hydrogen ([why it is the
default](faithfulness.md#shapley-values-over-fragments)). The tau of that is low even where the exact log P of each
fragment takes the place of a prediction. Where a property is a sum over atoms, `additive` is the one to look at, and
`--preset additive` the model to train.{unmeasured}

Published for Crippen's terms, with other models and training sets: tau 0.46 at best, by CAM of a graph network
(Sanchez-Lengeling et al. 2020, Evaluating Attribution for Graph Neural Networks, NeurIPS 33); overlap 0.54 for a forest
on fingerprints and 0.47 for a graph network (Rasmussen, Christensen and Jensen 2023, SciPost Chem. 2, 002). The data of
the other columns are of Matveieva and Polishchuk (2021, J. Cheminform. 13, 41).

{machine}
"""


if __name__ == "__main__":
    main()
