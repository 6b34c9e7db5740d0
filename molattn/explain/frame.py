"""An attention map as a tidy table, with a row for each layer, head, receiver and sender."""

import numpy as np
import pyarrow as pa

from molattn.chem import BOND_FEATURES, DISCONNECTED, unpack_bond
from molattn.explain.attention_map import AttentionMap

_CATEGORY = pa.dictionary(pa.int32(), pa.string())

SCHEMA = pa.schema(
    [
        ("layer", pa.int32()),
        ("head", pa.int32()),
        ("receiver", pa.int32()),
        ("sender", pa.int32()),
        ("receiver_label", _CATEGORY),
        ("sender_label", _CATEGORY),
        ("receiver_element", _CATEGORY),
        ("sender_element", _CATEGORY),
        ("bond", _CATEGORY),
        ("path_length", pa.int32()),
        ("weight", pa.float64()),
    ]
)
"""The columns and their types."""


def attention_frame(attention: AttentionMap) -> pa.Table:
    """All weights, one per row; see `AttentionMap.to_frame`."""
    layers, heads, n, _ = attention.weights.shape
    layer, head, receiver, sender = (x.ravel() for x in np.indices(attention.weights.shape))
    elements = np.full(n, -1)
    bonds, paths = np.full((n, n), -1), np.full((n, n), -1)
    names = sorted(set(attention.symbols))
    if attention.position_type == "atoms":
        graph = attention.graph()
        atoms = slice(graph.num_atoms)
        elements[atoms] = [names.index(symbol) for symbol in graph.symbols]
        bonds[atoms, atoms] = unpack_bond(graph.bond_codes)[..., 0]
        paths[atoms, atoms] = np.where(graph.path_lengths == DISCONNECTED, -1, graph.path_lengths.astype(int))

    def dictionary(codes: np.ndarray, vocabulary: list[str]) -> pa.Array:
        indices = pa.array(codes, pa.int32(), mask=codes < 0)
        return pa.DictionaryArray.from_arrays(indices, pa.array(vocabulary, pa.string()))

    def for_all_heads(pairs: np.ndarray) -> np.ndarray:
        return np.tile(pairs.ravel(), layers * heads)

    path = for_all_heads(paths)
    columns = [
        pa.array(layer, pa.int32()),
        pa.array(head, pa.int32()),
        pa.array(receiver, pa.int32()),
        pa.array(sender, pa.int32()),
        dictionary(receiver, attention.labels),
        dictionary(sender, attention.labels),
        dictionary(elements[receiver], names),
        dictionary(elements[sender], names),
        dictionary(for_all_heads(bonds), list(BOND_FEATURES[0].labels)),
        pa.array(path, pa.int32(), mask=path < 0),
        pa.array(attention.weights.ravel().astype(np.float64)),
    ]
    return pa.table(columns, schema=SCHEMA)
