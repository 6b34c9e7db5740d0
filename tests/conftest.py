"""The configuration of all tests."""

import atexit
import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

# Threads that wait for each other crawl when two test processes share two cores. Read when torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# Read when Keras is imported: it asks for tensorflow otherwise, and writes its settings into the home folder.
os.environ["KERAS_BACKEND"] = "torch"
os.environ["KERAS_HOME"] = str(Path(tempfile.gettempdir()) / "molattn-tests-keras")
# Tests neither write to the user's cache nor read from it.
if "PYTEST_XDIST_WORKER" not in os.environ:  # the workers share the folder of the process that starts them
    os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="molattn-tests-cache-")
    os.environ.pop("MOLATTN_CACHE", None)
    atexit.register(shutil.rmtree, os.environ["XDG_CACHE_HOME"], ignore_errors=True)
os.environ["MOLATTN_CACHE"] = ""

import pytest
from hypothesis import HealthCheck, settings


def pytest_configure(config: pytest.Config) -> None:
    atexit.register(shutil.rmtree, os.environ["XDG_CACHE_HOME"], ignore_errors=True)
    # Not in pyproject.toml: pytest would import molattn to find the class, before its shapes can be checked.
    config.addinivalue_line("filterwarnings", "error::molattn.errors.MolattnWarning")
    # The workers share a cache: one may wait for the molecules that another reads.
    config.addinivalue_line("filterwarnings", "ignore:another process is featurizing these molecules")
    # On a busy machine an example that hypothesis makes may take seconds, which is no fault of the test.
    settings.register_profile("molattn", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("molattn")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests with the mark `annotations` if nothing checks annotations."""
    if not config.getoption("jaxtyping_packages", None):
        items[:] = [item for item in items if not item.get_closest_marker("annotations")]


@pytest.fixture(autouse=True, scope="session")
def _no_garbage_collection_before_trainings() -> Iterator[None]:
    """A training first runs the garbage collector, which takes longer than a small training here, with all
    that the tests import."""
    with pytest.MonkeyPatch.context() as patch:
        functions = {name: getattr(gc, name) for name in ("freeze", "unfreeze", "get_freeze_count")}
        patch.setattr("molattn.training.fit.gc", SimpleNamespace(collect=int, **functions))
        yield


@pytest.fixture(autouse=True, scope="session")
def _faithfulness_of_few_fragments() -> Iterator[None]:
    """Faithfulness after a training is measured on one or two molecules, because more take longer than the training."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("molattn.explain.run_faithfulness.MAX_FRAGMENTS", 20)
        yield


@pytest.fixture(autouse=True)
def _no_plots_and_faithfulness_after_trainings(request: pytest.FixtureRequest) -> Iterator[None]:
    """The plots of a run and its measurement of faithfulness take longer than a small training itself: they are
    made for the tests with the mark `finished_runs`, and for fixtures that several tests share."""
    if request.node.get_closest_marker("finished_runs"):
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("molattn._train.finish_run", lambda *_: None)
        yield


@pytest.fixture(autouse=True)
def _torch_settings_are_restored() -> Iterator[None]:
    """Global settings that a test does not restore would affect later tests in the same process."""
    yield
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "are_deterministic_algorithms_enabled"):
        left = (torch.are_deterministic_algorithms_enabled(), torch.get_default_dtype(), torch.is_grad_enabled())
        torch.use_deterministic_algorithms(False)
        assert left == (False, torch.float32, True), left
