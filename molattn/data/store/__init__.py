"""Featurized molecules: packed into memory-mapped files, cached, and collated into batches."""
