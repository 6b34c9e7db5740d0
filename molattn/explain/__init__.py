"""What a model looked at: attention maps."""

from molattn.explain.attention_map import AttentionMap

__all__ = ["AttentionMap"]
