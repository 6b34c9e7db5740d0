"""The attention core: scores, normalizers, and the one entry that every attention in the project goes through.

    weights = normalize(score(q, k) + bias)        over whoever competes for one query
    output  = weights v

It knows nothing of molecules, graphs or training. Who competes is a value: `Rows` (a dense, masked matrix) or
`Segments` (the edges into one receiver).
"""

from molattn.attention.attend import attend, attention_weights
from molattn.attention.competitors import Competitors, Rows, Segments
from molattn.attention.heads import ConcatHeads, merge_heads, split_heads
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
    "NORMALIZERS",
    "SCORES",
    "SCORES_WITH_WEIGHTS",
    "Additive",
    "Competitors",
    "ConcatHeads",
    "General",
    "Location",
    "MultiHeadAttention",
    "Normalizer",
    "Rows",
    "Score",
    "Segments",
    "Softmax",
    "attend",
    "attention_weights",
    "dot",
    "hardmax",
    "make_score",
    "merge_heads",
    "scaled_dot",
    "softmax",
    "sparsemax",
    "split_heads",
]
