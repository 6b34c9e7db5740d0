"""The picture that the README opens with.

python docs/pictures.py            trains a model on ESOL first, some two minutes
python docs/pictures.py runs/esol  takes the model of a run
"""

import sys
import tempfile
from pathlib import Path

import molattn
from molattn.viewer import head_grid

ASPIRIN, ESTER_OXYGEN = "CC(=O)Oc1ccccc1C(=O)O", 3


def write(run: str | Path, folder: Path) -> Path:
    """Draw what the ester oxygen of aspirin attends to in every head of a model, as `attention.png` in `folder`."""
    path = folder / "attention.png"
    head_grid(molattn.load(run).attention(ASPIRIN), "atoms", ESTER_OXYGEN).save(path)
    return path


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        run = sys.argv[1] if len(sys.argv) > 1 else molattn.train("esol", output_dir=f"{made}/esol").folder
        print(write(run, Path(__file__).parent))
