"""Molecules that were read: packed into memory-mapped files, cached, and collated into batches."""
