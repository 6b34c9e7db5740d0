"""`check_model`: checks of the properties that every layer or molecule model must have, for tests of custom models.

>>> from molattn.attention import MultiHeadAttention
>>> from molattn.testing import check_model
>>> passed = check_model(MultiHeadAttention(embed_dim=4, num_heads=2))
>>> len(passed)
11
"""

from molattn.testing.cases import SMILES, TOLERANCE, CheckFailed
from molattn.testing.checks import check_model, random_graphs

__all__ = ["SMILES", "TOLERANCE", "CheckFailed", "check_model", "random_graphs"]
