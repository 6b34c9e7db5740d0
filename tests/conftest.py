"""What every test runs under."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    # Not in pyproject.toml: pytest would import molattn to find the class, before its shapes can be checked.
    config.addinivalue_line("filterwarnings", "error::molattn.errors.MolattnWarning")
