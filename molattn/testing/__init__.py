"""`check_model`: checks of the properties that every layer or molecule model must have, including custom ones.

>>> from molattn.graph import GraphNetBlock
>>> passed = check_model(GraphNetBlock(node_dim=8, num_heads=2, edge_dim=3))
>>> len(passed)
11
"""

from molattn.testing.cases import SMILES, TOLERANCE, CheckFailed
from molattn.testing.checks import check_model, random_graphs

__all__ = ["SMILES", "TOLERANCE", "CheckFailed", "check_model", "random_graphs"]
