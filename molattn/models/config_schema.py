"""The schema of `config.json`, the configuration file of a model: the type and the range of each value."""

from collections.abc import Mapping

from molattn.chem import FEATURE_LENGTHS
from molattn.data.schema import (
    CHECKSUMS,
    Boolean,
    InstanceOf,
    Integer,
    ListOf,
    Nullable,
    Number,
    OneOf,
    Record,
    Schema,
    String,
)
from molattn.models.names import TRANSFORMS
from molattn.models.target_transform import MAX_KNOTS, MOLAR

SCHEMA = 1
"""The version of the file format. From the first release on, a later molattn reads all earlier versions."""

# Targets and descriptors have the names of table columns, which may be as long as a field of `csv`.
NAME, WORD = String(131_072), String(100, min_length=1)
MAX_TARGETS = 20_000
# The ranges of the settings of a run that are saved with its model.
MAX_ATOMS_RANGE, TIMEOUT_RANGE, DOMAIN_SIZE_RANGE = Integer(1, 10_000), Integer(1, 86_400), Integer(0, 100_000)
DROPOUT_PASSES_RANGE, NUM_MEMBERS_RANGE = Integer(2, 1_000), Integer(0, 1_000)

_SIZE = Integer(1, 65_536)
_SHARED: dict[str, Schema] = {
    "kind": WORD,
    "hidden_dim": _SIZE,
    "num_layers": Integer(1, 1_000),
    "num_heads": _SIZE,
    "feed_forward": Integer(1, 1_024),
    "dropout": Number(0.0, 0.999_999),
}
MODEL_FIELDS: Mapping[str, Record] = {
    "graph": Record(
        {"kind": WORD},
        {
            **_SHARED,
            "attention": WORD,
            "edges": ListOf(WORD, 100),
            "join_edges": WORD,
            "edge_dim": _SIZE,
            "nodes": ListOf(WORD, 100),
            "neighbours": WORD,
            "virtual_node": Boolean(),
            "global_dim": Integer(0, 65_536),
            "readout": WORD,
            "max_path": Integer(1, 100_000),
            "path_edges": Integer(1, 1_000),
            "walk_steps": Integer(1, 1_000),
            "radial_bases": WORD,
            "num_bases": Integer(1, 10_000),
            "cutoff": Number(1e-6, 1e6),
            "distance_kernel": WORD,
            "lambdas": ListOf(Number(-1e3, 1e3), 1_000, min_length=1),
            "score": WORD,
            "normalizer": WORD,
            "join": WORD,
            "temperature": Number(0.0, 1e30),
        },
    ),
    "smiles-transformer": Record({"kind": WORD}, _SHARED),
}
"""The settings of each kind of model; a setting that is missing has its default."""

_KNOTS = ListOf(Number(), MAX_KNOTS, min_length=1)
_TRANSFORM = Record({"name": OneOf(TRANSFORMS)}, {"unit": OneOf(tuple(MOLAR)), "values": _KNOTS, "scores": _KNOTS})
_TARGET = Record(
    {"name": NAME, "unit": NAME, "mean": Number(), "std": Number(0.0, exclusive=True)},
    {"transform": _TRANSFORM, "class_priors": ListOf(Number(0.0, 1.0), MAX_TARGETS, min_length=1)},
)
_DESCRIPTOR = Record({"name": NAME, "mean": Number(), "std": Number(0.0), "computed": Boolean()})
_CONFORMERS = Record(
    {"seed": Integer(0, 2**31 - 2), "timeout": TIMEOUT_RANGE, "on_failure": OneOf(("paths", "reject", "stop"))}
)
_TASK = Record(
    {"kind": WORD, "loss": WORD, "atom_level": Boolean()},
    {
        "classes": ListOf(ListOf(NAME, MAX_TARGETS, min_length=1), MAX_TARGETS),
        "alpha": Number(0.0, 1.0, exclusive=True),
    },
)
CONFIG_SCHEMA = Record(
    {
        "schema": Integer(1, SCHEMA),
        "molattn": WORD,
        "model": InstanceOf(dict, "an object with fields"),
        "targets": ListOf(_TARGET, MAX_TARGETS, min_length=1),
        "task": _TASK,
        "molecules": Record(
            {
                "add_hs": Boolean(),
                "max_atoms": MAX_ATOMS_RANGE,
                "standardize": String(100),
                "conformers": Nullable(_CONFORMERS),
            }
        ),
        "descriptors": ListOf(_DESCRIPTOR, MAX_TARGETS),
        "members": NUM_MEMBERS_RANGE,
        "uncertainty": Record({"method": WORD, "samples": Integer(1, DROPOUT_PASSES_RANGE.maximum)}),
        "calibration": Nullable(Record({"method": WORD, "uncertainty": WORD}, {"distances": Boolean()})),
        "domain": Nullable(Record({"max_distance": Number(0.0), "min_similarity": Number(0.0, 1.0)})),
        "vocabulary": InstanceOf(dict, "an object with fields"),
        CHECKSUMS: InstanceOf(dict, "an object with checksums"),
    },
    {
        "trees": Record(
            {
                "featurizers": ListOf(OneOf(tuple(FEATURE_LENGTHS)), len(FEATURE_LENGTHS), min_length=1),
                "weights": ListOf(Number(0.0, 1.0), MAX_TARGETS, min_length=1),
            }
        )
    },
)
