"""The benchmarks are scripts that lie beside one another: their folder is where they import from."""

import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "benchmarks"

if str(FOLDER) not in sys.path:
    sys.path.insert(0, str(FOLDER))
