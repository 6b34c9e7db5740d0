"""Data: cards of the data sets at hand, tables, records and splits.

Text and numbers only: molecules are made in `molattn.chem`.
"""

from molattn.data.datasets.cards import (
    DatasetCard,
    Download,
    Pin,
    TargetColumn,
    dataset_names,
    datasets_dir,
    load_card,
    split_files,
    verify,
)
from molattn.data.datasets.fetch import find, obtain
from molattn.data.datasets.folders import DATA_VARIABLE, cache_dir, data_folders
from molattn.data.splits.calibration import set_aside
from molattn.data.splits.folds import fold_labels, fold_numbers
from molattn.data.splits.labels import ALL_SIDES, CALIBRATION, DEFAULT_SIZES, SIDES
from molattn.data.splits.leakage import Leak, describe_leakage, leakage
from molattn.data.splits.predefined import read_split_column, read_split_file
from molattn.data.splits.splitters import (
    SPLITS,
    SPLITS_BY_TARGET,
    cluster_split,
    kennard_stone_split,
    random_split,
    scaffold_balanced_split,
    scaffold_split,
    split_labels,
    stratified_split,
)
from molattn.data.tables.atom_lists import label_rows, list_items, list_text, offsets_of
from molattn.data.tables.columns import guess_smiles_column
from molattn.data.tables.records import Records, Rejected, read_records
from molattn.data.tables.table import Table, column, column_index, read_columns, read_table, write_table

__all__ = [
    "ALL_SIDES",
    "CALIBRATION",
    "DATA_VARIABLE",
    "DEFAULT_SIZES",
    "SIDES",
    "SPLITS",
    "SPLITS_BY_TARGET",
    "DatasetCard",
    "Download",
    "Leak",
    "Pin",
    "Records",
    "Rejected",
    "Table",
    "TargetColumn",
    "cache_dir",
    "cluster_split",
    "column",
    "column_index",
    "data_folders",
    "dataset_names",
    "datasets_dir",
    "describe_leakage",
    "find",
    "fold_labels",
    "fold_numbers",
    "guess_smiles_column",
    "kennard_stone_split",
    "label_rows",
    "leakage",
    "list_items",
    "list_text",
    "load_card",
    "obtain",
    "offsets_of",
    "random_split",
    "read_columns",
    "read_records",
    "read_split_column",
    "read_split_file",
    "read_table",
    "scaffold_balanced_split",
    "scaffold_split",
    "set_aside",
    "split_files",
    "split_labels",
    "stratified_split",
    "verify",
    "write_table",
]
