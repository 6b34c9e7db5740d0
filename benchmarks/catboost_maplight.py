"""CatBoost on a table as MapLight (Notwell and Wood, arXiv:2310.00174) sets it up, in an environment with catboost.

    python benchmarks/catboost_maplight.py table.csv -o predictions.csv --task regression --log-target

The table has columns smiles, y and split. Features of a molecule: counts of Morgan fingerprints (radius 2) and of
Avalon fingerprints, both of 1,024 bits, RDKit's ErG fingerprint, and 200 descriptors of RDKit. CatBoost has its
defaults but for a random strength of 2; numbers are standardised, with `--log-target` after log10(1 + y - min(y, 0)),
and their loss is MAE. It chooses nothing, so that the training and the validation rows train, as in the original.
Writes the table with a column y_pred.
"""

import argparse
import csv
from pathlib import Path

import numpy as np
from catboost import CatBoostClassifier, CatBoostRegressor
from rdkit import Chem, rdBase
from rdkit.Avalon.pyAvalonTools import GetAvalonCountFP
from rdkit.Chem import DataStructs, Descriptors, rdFingerprintGenerator, rdReducedGraphs

BITS = 1024

NEWER = (
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
"""Descriptors that RDKit has beside the 200 that MapLight and others use."""


def features(smiles: list[str]) -> np.ndarray:
    """(n, 1,024 + 1,024 + ErG + 200) counts and numbers; NaN where a descriptor is not defined."""
    morgan = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=BITS)
    described = [(name, function) for name, function in Descriptors.descList if name not in NEWER]
    rows = []
    with rdBase.BlockLogs():
        for text in smiles:
            mol = Chem.MolFromSmiles(text)
            avalon = np.zeros(BITS)
            DataStructs.ConvertToNumpyArray(GetAvalonCountFP(mol, nBits=BITS), avalon)
            numbers = [function(mol) for _, function in described]
            counts = morgan.GetCountFingerprintAsNumPy(mol)
            rows.append(np.concatenate([counts, avalon, rdReducedGraphs.GetErGFingerprint(mol), numbers]))
    return np.stack(rows)


def main() -> None:
    """Fit, predict, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--task", choices=("regression", "binary"), default="regression")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--log-target", action="store_true")
    options = parser.parse_args()
    with open(options.table, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    x = features([row["smiles"] for row in rows])
    fitted = np.array([row["split"] in ("train", "val") for row in rows])
    y = np.array([float(row["y"]) for row in rows if row["split"] in ("train", "val")])
    settings = {
        "random_strength": 2,
        "random_seed": options.seed,
        "verbose": 0,
        "thread_count": 1,
        "allow_writing_files": False,
    }
    if options.task == "binary":
        answers = CatBoostClassifier(loss_function="Logloss", **settings).fit(x[fitted], y).predict_proba(x)[:, 1]
    else:
        offset = min(y.min(), 0.0)
        learned = np.log10(1 + y - offset) if options.log_target else y
        mean, std = learned.mean(), learned.std() or 1.0
        model = CatBoostRegressor(loss_function="MAE", **settings).fit(x[fitted], (learned - mean) / std)
        answers = model.predict(x) * std + mean
        if options.log_target:
            answers = 10**answers - 1 + offset
    with open(options.output, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*rows[0], "y_pred"])
        writer.writerows([*row.values(), answer] for row, answer in zip(rows, answers.tolist(), strict=True))


if __name__ == "__main__":
    main()
