"""Translation of random SMILES into canonical ones."""
