"""Classical models on a table: trees on RDKit's descriptors and Morgan counts, by scikit-learn.

    python benchmarks/classical.py table.csv -o predictions.csv --kind forest

The table has columns smiles, y and split. A random forest of 500 trees, or gradient boosting (histograms) whose number
of rounds the validation rows choose, at scikit-learn's defaults else. Features: all descriptors of
`rdkit.Chem.Descriptors`, infinite ones as missing (the forest gets the median of the training rows), and 2,048 counts
of Morgan fingerprints of radius 2, or these counts alone (`--features morgan`). Writes the table with a column y_pred.
"""

import argparse
import csv
from pathlib import Path

import numpy as np
from rdkit import Chem, rdBase
from rdkit.Chem import Descriptors, rdFingerprintGenerator
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline


def features(smiles: list[str], which: str = "all") -> np.ndarray:
    """(n, descriptors + 2,048), NaN where a descriptor has no finite value; (n, 2,048) for `which` "morgan"."""
    morgan = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    rows = []
    with rdBase.BlockLogs():
        for text in smiles:
            mol = Chem.MolFromSmiles(text)
            if which == "morgan":
                rows.append(morgan.GetCountFingerprintAsNumPy(mol))
                continue
            described = np.array(list(Descriptors.CalcMolDescriptors(mol, missingVal=np.nan).values()), dtype=float)
            # Float32 is what trees compare in; Ipc alone goes beyond it.
            described[~(np.abs(described) < 1e30)] = np.nan
            rows.append(np.concatenate([described, morgan.GetCountFingerprintAsNumPy(mol)]))
    return np.stack(rows)


def main() -> None:
    """Fit, predict, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--kind", choices=("forest", "boosting"), default="forest")
    parser.add_argument("--features", choices=("all", "morgan"), default="all")
    parser.add_argument("--task", choices=("regression", "binary"), default="regression")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with open(options.table, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    x, y = features([row["smiles"] for row in rows], options.features), np.array([float(row["y"]) for row in rows])
    sides = {side: np.array([row["split"] == side for row in rows]) for side in ("train", "val")}
    train, val = sides["train"], sides["val"]
    seed, binary = options.seed, options.task == "binary"
    if options.kind == "forest":
        forest = (RandomForestClassifier if binary else RandomForestRegressor)(500, random_state=seed, n_jobs=1)
        model = make_pipeline(SimpleImputer(strategy="median", keep_empty_features=True), forest).fit(
            x[train], y[train]
        )
    else:
        boosting = HistGradientBoostingClassifier if binary else HistGradientBoostingRegressor
        model = boosting(random_state=seed, max_iter=1000, early_stopping=True, n_iter_no_change=20).fit(
            x[train], y[train], X_val=x[val], y_val=y[val]
        )
    answers = model.predict_proba(x)[:, 1] if binary else model.predict(x)
    with open(options.output, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*rows[0], "y_pred"])
        writer.writerows([*row.values(), answer] for row, answer in zip(rows, answers.tolist(), strict=True))


if __name__ == "__main__":
    main()
