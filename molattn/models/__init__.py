"""Molecule models, built from a configuration, and everything to save, load and run them."""
