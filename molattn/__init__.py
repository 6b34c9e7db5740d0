"""molattn: graph attention for chemistry.

SMILES in; RDKit reads each molecule into a complete graph; multi-head tensor-dot attention updates the edges and a
sum aggregates them per atom; out come a property and what every atom attended to.

    import molattn

    run = molattn.train("esol")
    predictor = molattn.load(run.folder)
    predictor.predict(["CCO", "c1ccccc1"])        # log10(mol/L)
    predictor.attention("CCO").weights            # (layers, heads, atoms, atoms)
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from molattn._train import train
    from molattn.inference import Predictor, load
    from molattn.publish.push import push
    from molattn.sklearn import MolAttentionClassifier, MolAttentionRegressor

__version__ = "0.2.0"
"""The version of molattn."""

__all__ = ["MolAttentionClassifier", "MolAttentionRegressor", "Predictor", "__version__", "load", "push", "train"]


_MODULES = {
    "train": "molattn._train",
    "Predictor": "molattn.inference",
    "load": "molattn.inference",
    "push": "molattn.publish.push",
    "MolAttentionClassifier": "molattn.sklearn",
    "MolAttentionRegressor": "molattn.sklearn",
}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> object:
    # Imported at first use (PEP 562), so that `molattn --help` loads neither torch nor RDKit.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
