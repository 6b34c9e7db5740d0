"""An error in a process of Ray is raised as the same error here; Ray itself does not run."""

import sys
from types import ModuleType

import pytest

from molattn.errors import InputError, MissingExtra, MolattnError, SmilesError, UsageError
from molattn.inference.ray_engine import _error, _start


@pytest.mark.parametrize(
    "raised",
    [
        InputError("in.csv is empty"),
        MissingExtra("openpyxl", "excel", "reading .xlsx"),
        SmilesError("C1CC", "a ring is open"),
    ],
)
def test_an_error_keeps_its_class_and_text(raised: MolattnError) -> None:
    found = _error({"error": type(raised).__name__, "text": str(raised)})
    assert type(found) is type(raised) and str(found) == str(raised)


def test_an_error_of_the_system_has_its_number_and_text() -> None:
    found = _error({"error": "OSError", "errno": 28, "text": "No space left on device"})
    assert isinstance(found, OSError) and (found.errno, found.strerror) == (28, "No space left on device")


def test_a_ray_of_the_caller_is_neither_used_nor_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    ray, data = ModuleType("ray"), ModuleType("ray.data")
    ray.__dict__.update(is_initialized=lambda: True, data=data)
    for name, module in (("ray", ray), ("ray.data", data)):
        monkeypatch.setitem(sys.modules, name, module)
    for name in ("RAY_USAGE_STATS_ENABLED", "RAY_BACKEND_LOG_LEVEL", "RAY_worker_niceness", "RAY_AUTH_MODE"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "")
    with pytest.raises(UsageError, match=r"Ray already runs in this process: call ray.shutdown\(\) first"):
        _start(1)
