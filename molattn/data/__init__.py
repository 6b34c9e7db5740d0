"""Data: cards of the data sets at hand, tables, records and splits.

Text and numbers only: molecules are made in `molattn.chem`.
"""

from molattn.data.cards import (
    DatasetCard,
    TargetColumn,
    dataset_names,
    datasets_dir,
    load_card,
    split_files,
    verify,
)
from molattn.data.records import Records, Rejected, guess_smiles_column, read_records
from molattn.data.splits import (
    DEFAULT_SIZES,
    SIDES,
    SPLITS,
    Leak,
    describe_leakage,
    leakage,
    random_split,
    read_split_file,
    scaffold_split,
)
from molattn.data.tables import Table, column, column_index, read_table, write_table

__all__ = [
    "DEFAULT_SIZES",
    "SIDES",
    "SPLITS",
    "DatasetCard",
    "Leak",
    "Records",
    "Rejected",
    "Table",
    "TargetColumn",
    "column",
    "column_index",
    "dataset_names",
    "datasets_dir",
    "describe_leakage",
    "guess_smiles_column",
    "leakage",
    "load_card",
    "random_split",
    "read_records",
    "read_split_file",
    "read_table",
    "scaffold_split",
    "split_files",
    "verify",
    "write_table",
]
