"""Explanations of a model: attributions to atoms, attention maps, and summaries of attention heads.

`molattn.Predictor.attributions` and `.attention` make the first two, by the methods of `molattn.explain.methods`.
"""

from molattn.explain.attention_map import NOT_MEASURED, AttentionMap
from molattn.explain.attribution import Attribution
from molattn.explain.head_summary import HeadSummary, summarize_heads

__all__ = ["NOT_MEASURED", "AttentionMap", "Attribution", "HeadSummary", "summarize_heads"]
