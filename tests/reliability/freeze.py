"""Store a model of a release, with its predictions, for later tests:
`python -m tests.reliability.freeze tests/frozen/VERSION`.

It has every part of a model that does not depend on the version of RDKit, and is written once, by the release that it
is named after: from then on every molattn must read it and predict the same.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import molattn
from molattn import Predictor
from tests.molecules import SPECIAL, esol

NAME = "ensemble"
SETTINGS = ("model.num_layers=1", "model.hidden_dim=8", "model.num_heads=2")


def answers(predictor: Predictor) -> list[Any]:
    """The predictions of a model for some molecules, as JSON."""
    rows = predictor.predict_rows(SPECIAL)
    return json.loads(json.dumps([[r.values, r.extra_values] for r in rows]))


def main() -> None:
    """See above."""
    folder = Path(sys.argv[1]) / NAME
    smiles, y = esol(40)
    with tempfile.TemporaryDirectory() as temporary:
        table = Path(temporary) / "t.csv"
        rows = (f"{s},{v}" for s, v in zip(smiles, y, strict=True))
        table.write_text("\n".join(["smiles,y", *rows]) + "\n")
        run = molattn.train(
            table,
            output_dir=Path(temporary) / NAME,
            ensemble_size=2,
            calibration_size=0.3,
            molecule_featurizers=(),
            epochs=2,
            accelerator="cpu",
            quiet=True,
            settings=SETTINGS,
        )
        predictor = molattn.load(run.folder)
        predictor.save(folder)
    (folder / "answers.json").write_text(json.dumps(answers(predictor), indent=1) + "\n")


if __name__ == "__main__":
    main()
