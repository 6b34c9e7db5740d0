"""The benchmarks are scripts that import each other by module name: their folder is added to `sys.path`."""

import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "benchmarks"

if str(FOLDER) not in sys.path:
    sys.path.insert(0, str(FOLDER))
