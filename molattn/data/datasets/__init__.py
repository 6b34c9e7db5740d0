"""Data sets by name: their cards, where their tables are stored, and how they are downloaded."""
