"""Explanations of a model: attention maps, summaries of attention heads, and attributions to atoms."""

from molattn.explain.attention_map import NOT_MEASURED, AttentionMap
from molattn.explain.attribution import Attribution
from molattn.explain.head_summary import HeadSummary, summarize_heads

__all__ = ["NOT_MEASURED", "AttentionMap", "Attribution", "HeadSummary", "summarize_heads"]
