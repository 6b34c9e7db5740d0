"""Predictions of trained models: for SMILES in Python, and for tables of any length.

`load` reads a run folder and returns a `Predictor`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from molattn.inference.batch_predictor import PredictionOptions
    from molattn.inference.loading import load, model_folder
    from molattn.inference.predictor import Predictor
    from molattn.inference.rows import RowPrediction

_MODULES = {
    "PredictionOptions": "batch_predictor",
    "Predictor": "predictor",
    "RowPrediction": "rows",
    "load": "loading",
    "model_folder": "loading",
}
__all__ = [
    "PredictionOptions",
    "Predictor",
    "RowPrediction",
    "load",
    "model_folder",
]


def __getattr__(name: str) -> object:
    # Imported at first use (PEP 562): the command line checks its arguments before torch is imported.
    if name in _MODULES:
        from importlib import import_module

        return getattr(import_module(f"molattn.inference.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
