"""The model of a run, as soon as can be."""

import gc
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from molattn.inference import Predictor


def predictor_of(run: Path) -> "Predictor":
    """`molattn.load`, with what it imports kept out of Python's search for garbage.

    Half a million objects are made while torch is imported, and all of them stay to the end of the command: looking
    through them, on the way and once more at the end, takes a quarter of the time that the import itself takes.
    Nothing is changed where torch was there before, as in a program of somebody else's.

    Raises:
        InputError: as `molattn.load`.
    """
    first = "torch" not in sys.modules
    if first:
        gc.disable()
    try:
        from molattn import inference

        return inference.load(run)
    finally:
        if first:
            gc.freeze()
            gc.enable()
