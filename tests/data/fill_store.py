"""A process that reads molecules into the cache, for tests of concurrent processes and of a killed one.

    python fill_store.py LOG SMILES_FILE KILLED_AT START

waits for the file START, reads the molecules and prints a checksum of them. Every molecule that it reads itself adds
a byte to LOG. It kills itself as it reads the molecule KILLED_AT, if that is 0 or more.
"""

import hashlib
import os
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from molattn.chem import MoleculeGraph, molecule_graph
from molattn.data.store.cache import Featurization, cached_molecules
from molattn.data.store.packing import GraphPacking


def logged(smiles: object, log: str, killed_at: int, on_molecule: Callable[[Any], None] | None = None) -> MoleculeGraph:
    """Read one molecule, and add a byte to LOG."""
    with open(log, "ab") as file:
        file.write(b".")
        if file.tell() == killed_at + 1:
            os.kill(os.getpid(), signal.SIGKILL)
    return molecule_graph(smiles, on_molecule=on_molecule)


def reading(make: Callable[..., MoleculeGraph], **settings: object) -> Featurization:
    """The settings of the cache for graphs without distances."""
    return Featurization(featurize=make, packing=GraphPacking(), settings=settings)


def main() -> None:
    """See above."""
    log, smiles, killed_at, start = sys.argv[1:]
    texts = Path(smiles).read_text().split()
    while not Path(start).exists():
        time.sleep(0.005)
    found, folder, warning = cached_molecules(texts, reading(partial(logged, log=log, killed_at=int(killed_at))))
    assert not warning
    whole = hashlib.sha256()
    for molecule in found:
        fields = (molecule.smiles, molecule.symbols, molecule.warnings)
        arrays = (molecule.atom_codes, molecule.bond_codes, molecule.path_lengths)
        whole.update(repr(fields).encode() + b"".join(a.tobytes() for a in arrays))
    print(whole.hexdigest(), folder is None)


if __name__ == "__main__":
    main()
