"""Made-up attention maps of real molecules."""

from dataclasses import replace

import numpy as np

from molattn.chem import read_smiles
from molattn.explain import AttentionMap

CAFFEINE = "Cn1c(=O)c2c(ncn2C)n(C)c1=O"
ASPIRIN = "CC(=O)Oc1ccccc1C(=O)O"
METHANE = "C"
SALT = "[Na+].[Cl-]"
PEPTIDE = "CC(C)CC(NC(=O)C(Cc1ccccc1)NC(=O)C(CO)NC(=O)C(C)NC(=O)C1CCCN1C(=O)C(N)CCCCN)C(=O)NC(CC(=O)O)C(=O)NC(C)C(=O)O"
MOLECULES = {"caffeine": CAFFEINE, "aspirin": ASPIRIN, "methane": METHANE, "salt": SALT, "60 atoms": PEPTIDE}


def attention_map(smiles, layers=3, heads=4, add_hs=False, seed=0):
    """Random weights whose rows sum to 1."""
    symbols = tuple(a.GetSymbol() for a in read_smiles(smiles, add_hs=add_hs).GetAtoms())
    n = len(symbols)
    weights = np.exp(np.random.default_rng(seed).normal(size=(layers, heads, n, n)))
    weights /= weights.sum(-1, keepdims=True)
    return AttentionMap(smiles, symbols, weights.astype(np.float32), {"logS": -1.0}, {"logS": "mol/L"}, add_hs)


def with_virtual_node(attention):
    """The same map with a virtual node that has a quarter of all attention, as sender and as receiver."""
    weights = np.pad(0.75 * attention.weights, ((0, 0), (0, 0), (0, 1), (0, 1)))
    weights[..., -1] = 0.25
    weights[..., -1, :] = 1 / weights.shape[-1]
    return replace(attention, weights=weights, virtual=("virtual node",))
