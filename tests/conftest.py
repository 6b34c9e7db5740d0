"""What every test runs under."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

# Threads that wait for each other crawl when two test processes share two cores. Read when torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# Read when Keras is imported: it asks for tensorflow otherwise, and writes its settings into the home folder.
os.environ["KERAS_BACKEND"] = "torch"
os.environ["KERAS_HOME"] = str(Path(tempfile.gettempdir()) / "molattn-tests-keras")
# Nothing of a test stays in the user's cache, and what another run left there is not found.
if "PYTEST_XDIST_WORKER" not in os.environ:  # the workers share the folder of the process that starts them
    os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="molattn-tests-cache-")
    os.environ.pop("MOLATTN_CACHE", None)
    atexit.register(shutil.rmtree, os.environ["XDG_CACHE_HOME"], ignore_errors=True)
os.environ["MOLATTN_CACHE"] = ""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    atexit.register(shutil.rmtree, os.environ["XDG_CACHE_HOME"], ignore_errors=True)
    # Not in pyproject.toml: pytest would import molattn to find the class, before its shapes can be checked.
    config.addinivalue_line("filterwarnings", "error::molattn.errors.MolattnWarning")
