"""Collection of the tests of this folder."""

collect_ignore = ["build_hook.py"]
"""Imported by hatchling alone, which is installed where a wheel is built and not with the tests."""
