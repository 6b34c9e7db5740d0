"""`check_model`: everything that must hold of a layer or a model of molecules, ours or yours, as one call.

>>> from molattn.graph import GraphNetBlock
>>> passed = check_model(GraphNetBlock(node_dim=8, num_heads=2, edge_dim=3))
>>> len(passed)
11
"""

from molattn.testing.checks import check_model
from molattn.testing.failure import TOLERANCE, CheckFailed
from molattn.testing.on_graphs import random_graphs
from molattn.testing.on_molecules import SMILES

__all__ = ["SMILES", "TOLERANCE", "CheckFailed", "check_model", "random_graphs"]
