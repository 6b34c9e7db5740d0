"""CatBoost on a table as MapLight (Notwell and Wood, arXiv:2310.00174) sets it up, in an environment with catboost.

    python benchmarks/catboost_maplight.py table.csv -o predictions.csv --task regression --log-target

The table has columns smiles, y and split. Features of a molecule: counts of Morgan fingerprints (radius 2) and of
Avalon fingerprints, both of 1,024 bits, RDKit's ErG fingerprint, and 200 descriptors of RDKit. CatBoost has its default
settings except for a random strength of 2. Regression targets are standardized, with `--log-target` after
log10(1 + y - min(y, 0)), and the loss is MAE. There is no early stopping, so both the training and the validation rows
are trained on, as in the original. Writes the table with a column y_pred.
"""

import argparse
from pathlib import Path

import numpy as np
from catboost import CatBoostClassifier, CatBoostRegressor  # pyright: ignore[reportMissingImports]
from rdkit import Chem, rdBase
from rdkit.Avalon.pyAvalonTools import GetAvalonCountFP
from rdkit.Chem import DataStructs, Descriptors, rdFingerprintGenerator, rdReducedGraphs
from tables import read_rows, write_predictions

BITS = 1024

EXCLUDED_DESCRIPTORS = (
    "AvgIpc",
    "BCUT2D_CHGHI",
    "BCUT2D_CHGLO",
    "BCUT2D_LOGPHI",
    "BCUT2D_LOGPLOW",
    "BCUT2D_MRHI",
    "BCUT2D_MRLOW",
    "BCUT2D_MWHI",
    "BCUT2D_MWLOW",
    "NumAmideBonds",
    "NumAtomStereoCenters",
    "NumBridgeheadAtoms",
    "NumHeterocycles",
    "NumSpiroAtoms",
    "NumUnspecifiedAtomStereoCenters",
    "Phi",
    "SPS",
)
"""Descriptors of later versions of RDKit, which are not among the 200 that MapLight uses."""


def features(smiles: list[str]) -> np.ndarray:
    """(n, 1,024 + 1,024 + ErG + 200) counts and numbers; NaN where a descriptor is not defined."""
    morgan = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=BITS)
    functions = [function for name, function in Descriptors.descList if name not in EXCLUDED_DESCRIPTORS]
    rows = []
    with rdBase.BlockLogs():
        for text in smiles:
            mol = Chem.MolFromSmiles(text)
            avalon = np.zeros(BITS)
            DataStructs.ConvertToNumpyArray(GetAvalonCountFP(mol, nBits=BITS), avalon)
            counts = morgan.GetCountFingerprintAsNumPy(mol)
            descriptors = [function(mol) for function in functions]
            rows.append(np.concatenate([counts, avalon, rdReducedGraphs.GetErGFingerprint(mol), descriptors]))
    return np.stack(rows)


def main() -> None:
    """Train, and write the predictions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--task", choices=("regression", "binary"), default="regression")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--log-target", action="store_true")
    options = parser.parse_args()
    rows = read_rows(options.table)
    x = features([row["smiles"] for row in rows])
    is_training = np.array([row["split"] in ("train", "val") for row in rows])
    y = np.array([row["y"] for row in rows])[is_training].astype(float)
    settings = {
        "random_strength": 2,
        "random_seed": options.seed,
        "verbose": 0,
        "thread_count": 1,
        "allow_writing_files": False,
    }
    if options.task == "binary":
        predictions = (
            CatBoostClassifier(loss_function="Logloss", **settings).fit(x[is_training], y).predict_proba(x)[:, 1]
        )
    else:
        offset = min(y.min(), 0.0)
        targets = np.log10(1 + y - offset) if options.log_target else y
        mean, std = targets.mean(), targets.std() or 1.0
        model = CatBoostRegressor(loss_function="MAE", **settings).fit(x[is_training], (targets - mean) / std)
        predictions = model.predict(x) * std + mean
        if options.log_target:
            predictions = 10**predictions - 1 + offset
    write_predictions(options.output, rows, predictions.tolist())


if __name__ == "__main__":
    main()
