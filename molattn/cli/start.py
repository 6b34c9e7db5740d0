"""Loading a model quickly at the start of a command."""

import gc
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from molattn.inference import Predictor


def load_predictor(run: Path) -> "Predictor":
    """`molattn.load`, with the objects that it imports excluded from garbage collection.

    Importing torch creates half a million objects that live until the command ends: traversing them, during the import
    and again at exit, takes a quarter of the time of the import itself. Nothing changes if torch is imported already,
    as in another program.

    Raises:
        InputError: as `molattn.load`.
    """
    torch_is_new = "torch" not in sys.modules
    if torch_is_new:
        gc.disable()
    try:
        from molattn import inference

        return inference.load(run)
    finally:
        if torch_is_new:
            gc.freeze()
            gc.enable()
