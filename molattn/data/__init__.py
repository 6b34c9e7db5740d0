"""Data sets, tables, splits, and the storage and batching of featurized molecules.

Begin with `fetch_dataset` and `load_card` for data sets, `read_table` and `read_records` for tables, and `split_labels`
for splits. Molecules are parsed in `molattn.chem`.
"""

from molattn.data.datasets.cards import (
    DatasetCard,
    Download,
    OfficialSplit,
    TargetColumn,
    dataset_names,
    group_of,
    load_card,
)
from molattn.data.datasets.fetch import fetch_dataset, find_dataset
from molattn.data.datasets.folders import DATA_VARIABLE, cache_dir, data_dirs, datasets_dir
from molattn.data.datasets.pins import Pin, verify
from molattn.data.splits.folds import assign_folds, fold_labels, hold_out_calibration
from molattn.data.splits.labels import (
    ALL_SPLIT_LABELS,
    CALIBRATION,
    DEFAULT_SIZES,
    SPLIT_LABELS,
    Leak,
    describe_leakage,
    find_leakage,
    read_split_column,
    read_split_file,
)
from molattn.data.splits.official import official_split_labels, tdc_scaffold_split, validation_labels
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
from molattn.data.tables.atom_lists import format_list, label_rows, offsets_from_counts, parse_list
from molattn.data.tables.columns import guess_smiles_column
from molattn.data.tables.options import TableOptions
from molattn.data.tables.records import Records, read_records
from molattn.data.tables.table import RejectedRow, Table, column, column_index, read_columns, read_table, write_table

__all__ = [
    "ALL_SPLIT_LABELS",
    "CALIBRATION",
    "DATA_VARIABLE",
    "DEFAULT_SIZES",
    "SPLITS",
    "SPLITS_BY_TARGET",
    "SPLIT_LABELS",
    "DatasetCard",
    "Download",
    "Leak",
    "OfficialSplit",
    "Pin",
    "Records",
    "RejectedRow",
    "Table",
    "TableOptions",
    "TargetColumn",
    "assign_folds",
    "cache_dir",
    "cluster_split",
    "column",
    "column_index",
    "data_dirs",
    "dataset_names",
    "datasets_dir",
    "describe_leakage",
    "fetch_dataset",
    "find_dataset",
    "find_leakage",
    "fold_labels",
    "format_list",
    "group_of",
    "guess_smiles_column",
    "hold_out_calibration",
    "kennard_stone_split",
    "label_rows",
    "load_card",
    "official_split_labels",
    "offsets_from_counts",
    "parse_list",
    "random_split",
    "read_columns",
    "read_records",
    "read_split_column",
    "read_split_file",
    "read_table",
    "scaffold_balanced_split",
    "scaffold_split",
    "split_labels",
    "stratified_split",
    "tdc_scaffold_split",
    "validation_labels",
    "verify",
    "write_table",
]
