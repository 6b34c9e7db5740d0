"""Classical models on a table: trees on RDKit's descriptors and Morgan counts, by scikit-learn.

    python benchmarks/classical.py table.csv -o predictions.csv --kind forest

The table has columns smiles, y and split. A random forest of 500 trees, or histogram gradient boosting with early
stopping on the validation rows; other settings are scikit-learn's defaults. Features: all descriptors of
`rdkit.Chem.Descriptors`, infinite ones as missing (imputed by the median of the training rows for the forest), and
2,048 counts of Morgan fingerprints of radius 2, or these counts alone (`--features morgan`). Writes the table with a
column y_pred.
"""

import argparse
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
from tables import read_rows, write_predictions


def features(smiles: list[str], kind: str = "all") -> np.ndarray:
    """(n, descriptors + 2,048), NaN where a descriptor has no finite value; (n, 2,048) for the kind "morgan"."""
    morgan = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    rows = []
    with rdBase.BlockLogs():
        for text in smiles:
            mol = Chem.MolFromSmiles(text)
            if kind == "morgan":
                rows.append(morgan.GetCountFingerprintAsNumPy(mol))
                continue
            descriptors = np.array(list(Descriptors.CalcMolDescriptors(mol, missingVal=np.nan).values()), dtype=float)
            # Trees convert features to float32, which Ipc alone overflows.
            descriptors[~(np.abs(descriptors) < 1e30)] = np.nan
            rows.append(np.concatenate([descriptors, morgan.GetCountFingerprintAsNumPy(mol)]))
    return np.stack(rows)


def main() -> None:
    """Train, and write the predictions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--kind", choices=("forest", "boosting"), default="forest")
    parser.add_argument("--features", choices=("all", "morgan"), default="all")
    parser.add_argument("--task", choices=("regression", "binary"), default="regression")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rows = read_rows(options.table)
    x, y = features([row["smiles"] for row in rows], options.features), np.array([float(row["y"]) for row in rows])
    train, val = (np.array([row["split"] == split for row in rows]) for split in ("train", "val"))
    seed, binary = options.seed, options.task == "binary"
    if options.kind == "forest":
        forest = (RandomForestClassifier if binary else RandomForestRegressor)(500, random_state=seed, n_jobs=1)
        model = make_pipeline(SimpleImputer(strategy="median", keep_empty_features=True), forest).fit(
            x[train], y[train]
        )
    else:
        boosting = HistGradientBoostingClassifier if binary else HistGradientBoostingRegressor
        stop = {"early_stopping": True, "n_iter_no_change": 20}
        model = boosting(random_state=seed, max_iter=1000, **stop).fit(x[train], y[train], X_val=x[val], y_val=y[val])
    predictions = model.predict_proba(x)[:, 1] if binary else model.predict(x)
    write_predictions(options.output, rows, predictions.tolist())


if __name__ == "__main__":
    main()
