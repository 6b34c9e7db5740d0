"""Store the models of a release for later tests: `python -m tests.reliability.freeze tests/frozen/VERSION [FORM ...]`.

One small model for each kind of artifact, with its predictions for some molecules. They are written once, by the
release that they are named after.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from rdkit import rdBase

import molattn
from molattn import Predictor
from molattn.chem import conformer, molecule_graph
from tests.molecules import SPECIAL, esol

# What a model keeps of its training molecules would make every form the newest.
SMALL = ("model.num_layers=1", "model.hidden_dim=8", "model.num_heads=2", "training.domain_size=0")
FORMS: dict[str, dict[str, Any]] = {
    "regression": {"target_columns": ("y",)},
    "conformers": {"target_columns": ("y",), "preset": "mat"},
    "binary": {"target_columns": ("c",), "task_type": "binary"},
    "parent": {"target_columns": ("y", "z"), "standardize": "parent"},
    "atoms": {"target_columns": ("q",), "task_type": "atom-regression"},
    "descriptors": {"target_columns": ("y",), "descriptor_columns": ("z",)},
    "ensemble": {"target_columns": ("y",), "ensemble_size": 2, "calibration_size": 0.3},
    "tokens": {"target_columns": ("y",), "model": "smiles-transformer"},
    "quantile": {"target_columns": ("y",), "loss": "quantile"},
    "computed": {"target_columns": ("y",), "molecule_featurizers": ("rdkit_few",)},
}
"""What each is trained on, by its name."""
GEOMETRIES = "geometries.json"
"""Beside the answers of a model of conformers."""


def answers(predictor: Predictor) -> list[Any]:
    """The predictions of a model for some molecules, as JSON."""
    beside = [[0.5]] * len(SPECIAL) if predictor.descriptors else None
    rows = predictor.predict_rows(SPECIAL, descriptors=beside)
    return json.loads(json.dumps([[r.values, r.extra_values] for r in rows]))


def geometries() -> dict[str, Any]:
    """Where this RDKit puts the atoms of these molecules, as JSON has it: what a model of conformers says depends on
    it, and another RDKit puts them elsewhere."""
    return {"rdkit": rdBase.rdkitVersion, "coordinates": {s: conformer(s).coordinates.tolist() for s in SPECIAL}}


def main() -> None:
    """See above."""
    home = Path(sys.argv[1])
    smiles, y = esol(40)
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "t.csv"
        lists = [[0.1] * molecule_graph(s).num_atoms for s in smiles]
        rows = [f'{s},{v},{v / 2},{int(v > -3)},"{q}"' for s, v, q in zip(smiles, y, lists, strict=True)]
        table.write_text("\n".join(["smiles,y,z,c,q", *rows]) + "\n")
        for name, options in FORMS.items():
            if name not in (sys.argv[2:] or FORMS):
                continue
            molattn.train(
                table,
                output_dir=Path(folder) / name,
                epochs=2,
                accelerator="cpu",
                quiet=True,
                settings=SMALL,
                **{"molecule_featurizers": (), **options},
            )
            predictor = molattn.load(Path(folder) / name)
            predictor.save(home / name)
            (home / name / "answers.json").write_text(json.dumps(answers(predictor), indent=1) + "\n")
            if name == "conformers":
                (home / name / GEOMETRIES).write_text(json.dumps(geometries(), indent=1) + "\n")


if __name__ == "__main__":
    main()
