"""Models built from a configuration: embed, blocks, readout, head."""
