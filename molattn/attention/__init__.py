"""The attention core: scores, normalizers and `attend`, the single entry point of every attention in the library.

    weights = normalize(score(q, k) + bias)        over the valid keys of each query
    output  = weights v

It is independent of molecules, graphs and training. An attention layout defines the valid keys: `DenseLayout` (a dense
masked matrix) or `EdgeListLayout` (the edges into each receiver).
"""

from molattn.attention.attend import attend, attention_weights
from molattn.attention.edges import EdgeTerms
from molattn.attention.heads import (
    JOINS,
    ConcatHeads,
    MaxHeads,
    MeanHeads,
    TensorHeads,
    VectorHeads,
    make_join,
    merge_heads,
    split_heads,
)
from molattn.attention.layout import AttentionLayout, DenseLayout, EdgeListLayout, PaddedGraphLayout
from molattn.attention.linear import linear
from molattn.attention.masks import causal_mask, causal_padding_mask, padding_mask
from molattn.attention.multihead import MultiHeadAttention
from molattn.attention.normalize import NORMALIZERS, Normalizer, Softmax, hardmax, make_normalizer, softmax, sparsemax
from molattn.attention.score import (
    SCORES,
    SCORES_WITH_WEIGHTS,
    Additive,
    General,
    Location,
    Score,
    dot,
    make_score,
    scaled_dot,
)
from molattn.kernels.dispatch import BACKENDS, OPERATIONS, Call, Operation, backend, record_backends

__all__ = [
    "BACKENDS",
    "JOINS",
    "NORMALIZERS",
    "OPERATIONS",
    "SCORES",
    "SCORES_WITH_WEIGHTS",
    "Additive",
    "AttentionLayout",
    "Call",
    "ConcatHeads",
    "DenseLayout",
    "EdgeListLayout",
    "EdgeTerms",
    "General",
    "Location",
    "MaxHeads",
    "MeanHeads",
    "MultiHeadAttention",
    "Normalizer",
    "Operation",
    "PaddedGraphLayout",
    "Score",
    "Softmax",
    "TensorHeads",
    "VectorHeads",
    "attend",
    "attention_weights",
    "backend",
    "causal_mask",
    "causal_padding_mask",
    "dot",
    "hardmax",
    "linear",
    "make_join",
    "make_normalizer",
    "make_score",
    "merge_heads",
    "padding_mask",
    "record_backends",
    "scaled_dot",
    "softmax",
    "sparsemax",
    "split_heads",
]
