"""Which tests need the export of models."""

import re

import pytest
import torch

from molattn.models.exported.write import MIN_TORCH

TOO_OLD = tuple(map(int, re.findall(r"\d+", torch.__version__)[:2])) < MIN_TORCH

needs_export = pytest.mark.skipif(TOO_OLD, reason=f"the export needs torch {'.'.join(map(str, MIN_TORCH))}")
"""Skips a test where torch is older than what exports."""
