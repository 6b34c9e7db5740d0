"""Names of packages that are imported at their first use."""

import importlib

import pytest


@pytest.mark.parametrize("package", ["", ".chem", ".graph", ".inference", ".viewer"])
def test_names_that_are_imported_at_first_use_are_completed(package: str) -> None:
    module = importlib.import_module(f"molattn{package}")
    assert set(module.__all__) <= set(dir(module))
