"""Training: fit, metrics, the run folder and its settings; translating SMILES."""
