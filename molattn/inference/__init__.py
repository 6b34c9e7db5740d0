"""Predictions of trained models: for SMILES in Python, and for tables of any length.

`load` reads a run folder and returns a `Predictor`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from molattn.inference.measured_pairs import Agreement
    from molattn.inference.onnx_predictor import OnnxPredictor
    from molattn.inference.options import PredictionOptions
    from molattn.inference.predictor import Predictor, load
    from molattn.inference.report import ReportSize, write_report
    from molattn.inference.row_counts import AttentionCounts, RowCounts
    from molattn.inference.rows import RowPrediction
    from molattn.inference.selection import Selection
    from molattn.inference.what_if import WhatIf, WhatIfRow

_NAMES = {
    "measured_pairs": ("Agreement",),
    "onnx_predictor": ("OnnxPredictor",),
    "options": ("PredictionOptions",),
    "predictor": ("Predictor", "load"),
    "report": ("ReportSize", "write_report"),
    "row_counts": ("AttentionCounts", "RowCounts"),
    "rows": ("RowPrediction",),
    "selection": ("Selection",),
    "what_if": ("WhatIf", "WhatIfRow"),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}
__all__ = [
    "Agreement",
    "AttentionCounts",
    "OnnxPredictor",
    "PredictionOptions",
    "Predictor",
    "ReportSize",
    "RowCounts",
    "RowPrediction",
    "Selection",
    "WhatIf",
    "WhatIfRow",
    "load",
    "write_report",
]


def __getattr__(name: str) -> object:
    # Imported at first use (PEP 562): the command line checks its arguments before torch is imported.
    if name in _MODULES:
        from importlib import import_module

        return getattr(import_module(f"molattn.inference.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
