"""The attention core: scores, normalizers, and the one entry that every attention in the project goes through.

    weights = normalize(score(q, k) + bias)        over whoever competes for one query
    output  = weights v

It knows nothing of molecules, graphs or training. Who competes is a value: `Rows` (a dense, masked matrix) or
`Segments` (the edges into one receiver).
"""

from molattn.attention.attend import attend, attention_weights
from molattn.attention.competitors import Competitors, Rows, Segments
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
from molattn.attention.linear import linear
from molattn.attention.masks import causal_mask, padding_mask
from molattn.attention.multihead import MultiHeadAttention
from molattn.attention.normalize import NORMALIZERS, Normalizer, Softmax, hardmax, softmax, sparsemax
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

__all__ = [
    "JOINS",
    "NORMALIZERS",
    "SCORES",
    "SCORES_WITH_WEIGHTS",
    "Additive",
    "Competitors",
    "ConcatHeads",
    "General",
    "Location",
    "MaxHeads",
    "MeanHeads",
    "MultiHeadAttention",
    "Normalizer",
    "Rows",
    "Score",
    "Segments",
    "Softmax",
    "TensorHeads",
    "VectorHeads",
    "attend",
    "attention_weights",
    "causal_mask",
    "dot",
    "hardmax",
    "linear",
    "make_join",
    "make_score",
    "merge_heads",
    "padding_mask",
    "scaled_dot",
    "softmax",
    "sparsemax",
    "split_heads",
]
