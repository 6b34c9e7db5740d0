"""What every test runs under."""

import os
import tempfile
from pathlib import Path

# Threads that wait for each other crawl when two test processes share two cores. Read when torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# Read when Keras is imported: it asks for tensorflow otherwise, and writes its settings into the home folder.
os.environ["KERAS_BACKEND"] = "torch"
os.environ["KERAS_HOME"] = str(Path(tempfile.gettempdir()) / "molattn-tests-keras")

import pytest


def pytest_configure(config: pytest.Config) -> None:
    # Not in pyproject.toml: pytest would import molattn to find the class, before its shapes can be checked.
    config.addinivalue_line("filterwarnings", "error::molattn.errors.MolattnWarning")
