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
from molattn.data.folds import fold_labels, fold_numbers
from molattn.data.records import Records, Rejected, guess_smiles_column, read_records
from molattn.data.sides import DEFAULT_SIZES, SIDES
from molattn.data.splits import (
    SPLITS,
    SPLITS_BY_TARGET,
    Leak,
    cluster_split,
    describe_leakage,
    kennard_stone_split,
    leakage,
    random_split,
    read_split_column,
    read_split_file,
    scaffold_balanced_split,
    scaffold_split,
    split_labels,
    stratified_split,
)
from molattn.data.tables import Table, column, column_index, read_table, write_table

__all__ = [
    "DEFAULT_SIZES",
    "SIDES",
    "SPLITS",
    "SPLITS_BY_TARGET",
    "DatasetCard",
    "Leak",
    "Records",
    "Rejected",
    "Table",
    "TargetColumn",
    "cluster_split",
    "column",
    "column_index",
    "dataset_names",
    "datasets_dir",
    "describe_leakage",
    "fold_labels",
    "fold_numbers",
    "guess_smiles_column",
    "kennard_stone_split",
    "leakage",
    "load_card",
    "random_split",
    "read_records",
    "read_split_column",
    "read_split_file",
    "read_table",
    "scaffold_balanced_split",
    "scaffold_split",
    "split_files",
    "split_labels",
    "stratified_split",
    "verify",
    "write_table",
]
