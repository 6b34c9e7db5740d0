"""Data sets by name: cards, folders, downloads and checksums."""
