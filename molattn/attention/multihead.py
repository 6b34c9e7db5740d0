"""Multi-head attention as a layer: project, attend in every head, join."""

from typing import Any, Literal, overload

import torch
from jaxtyping import Float
from torch import Tensor, nn

from molattn.attention.arguments import check_dropout, check_sizes, resolve_name
from molattn.attention.attend import attend, split_mask
from molattn.attention.heads import JOINS, KEEPS_HEAD_DIM, make_join, merge_heads, split_heads
from molattn.attention.layout import DenseLayout
from molattn.attention.normalize import NORMALIZERS, Normalizer, make_normalizer
from molattn.attention.score import Score, make_score
from molattn.errors import unknown_choice


class MultiHeadAttention(nn.Module):
    """Multi-head attention with learned projections of queries, keys and values in every head.

    q_i = W_q^h x_i + b_q;  k_j = W_k^h y_j + b_k;  v_j = W_v^h z_j + b_v
    head_h = sum_j w_ij v_j,  w_ij = normalize_j( score(q_i, k_j) + bias_ij );    output = join(head_1, ..., head_H)

    Args:
        embed_dim: channels of the queries and, unless `output_dim` is set, of the output.
        num_heads: H.
        head_dim: channels of a query and a key in one head (Keras' key_dim); embed_dim / num_heads by default.
        value_head_dim: channels of a value in one head (Keras' value_dim); head_dim by default.
        key_dim, value_dim: channels of keys and values passed to `forward` (torch's kdim, vdim); embed_dim by default.
        output_dim: channels of the output; by default embed_dim, or value_head_dim for the joins "w_h", "mean", "max"
            and others in `molattn.attention.heads.KEEPS_HEAD_DIM`; ignored if `join` is a module.
        bias: whether the projections and the "concat" join have a bias.
        dropout: dropout probability of the attention weights, in training.
        score: a name in `SCORES` or `SCORES_WITH_WEIGHTS`, or a score for queries and keys of head_dim channels. All
            heads share its weights; each head has its own W_q and W_k.
        normalizer: a name in `NORMALIZERS`, or a function such as `Softmax(temperature)`.
        join: a name in `JOINS` ("concat", "w_jhl", "w_h", "mean", "max"), or a module that takes the concatenated
            heads, (..., num_heads * value_head_dim).
        key_bias: "shared", one b_k for all keys; or "per_position", b_kj for the key at position j, with which a head
            can attend to a position independently of its content: a parameter `key_bias`, (H, max_length, head_dim).
        max_length: maximum number of keys, for key_bias "per_position" and for score "location".

    Raises:
        ValueError: head_dim is None and num_heads does not divide embed_dim; a size is below 1; dropout is not in
            [0, 1); a name is unknown; key_bias is "per_position" with bias=False or without `max_length`; score is
            "location" without `max_length`; the join cannot output output_dim channels.
        TypeError: score, normalizer or join is neither a name nor a function.

    Source: Vaswani et al. 2017, arXiv:1706.03762.

    >>> import torch
    >>> from molattn.attention import MultiHeadAttention
    >>> layer = MultiHeadAttention(embed_dim=12, num_heads=3)
    >>> output, weights = layer(torch.randn(2, 5, 12), return_weights=True)
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 5, 12), (2, 3, 5, 5))
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        head_dim: int | None = None,
        value_head_dim: int | None = None,
        key_dim: int | None = None,
        value_dim: int | None = None,
        output_dim: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        score: str | Score = "scaled_dot",
        normalizer: str | Normalizer = "softmax",
        join: str | nn.Module = "concat",
        key_bias: str = "shared",
        max_length: int | None = None,
    ):
        super().__init__()
        check_sizes(
            embed_dim=embed_dim,
            num_heads=num_heads,
            head_dim=head_dim,
            value_head_dim=value_head_dim,
            key_dim=key_dim,
            value_dim=value_dim,
            output_dim=output_dim,
            max_length=max_length,
        )
        check_dropout(dropout)
        if head_dim is None:
            if embed_dim % num_heads:
                raise ValueError(f"{num_heads} heads do not divide embed_dim {embed_dim}: pass head_dim")
            head_dim = embed_dim // num_heads
        value_head_dim = value_head_dim or head_dim
        if key_bias not in ("shared", "per_position"):
            raise ValueError(unknown_choice("key_bias", key_bias, ("shared", "per_position")))
        self.embed_dim, self.num_heads, self.dropout = embed_dim, num_heads, dropout
        self.head_dim, self.value_head_dim = head_dim, value_head_dim
        self.score = make_score(score, head_dim, head_dim, max_length=max_length)
        self.normalizer = make_normalizer(normalizer)
        self.q_proj = nn.Linear(embed_dim, num_heads * head_dim, bias=bias)
        self.k_proj = nn.Linear(key_dim or embed_dim, num_heads * head_dim, bias=bias and key_bias == "shared")
        self.v_proj = nn.Linear(value_dim or embed_dim, num_heads * value_head_dim, bias=bias)
        self.key_bias = self._new_key_bias(bias, max_length) if key_bias == "per_position" else None
        if isinstance(join, str):
            if join not in JOINS:
                raise ValueError(unknown_choice("join", join, JOINS, "a module"))
            output_dim = output_dim or (value_head_dim if join in KEEPS_HEAD_DIM else embed_dim)
            join = make_join(join, num_heads, value_head_dim, output_dim, bias)
        self.join = resolve_name(join, {}, "join")

    def extra_repr(self) -> str:
        settings: dict[str, Any] = {"embed_dim": self.embed_dim, "num_heads": self.num_heads, "head_dim": self.head_dim}
        if self.value_head_dim != self.head_dim:
            settings["value_head_dim"] = self.value_head_dim
        # Modules with weights are listed as submodules.
        if not isinstance(self.score, nn.Module):
            settings["score"] = getattr(self.score, "__name__", self.score)
        if not isinstance(self.normalizer, nn.Module):
            names = (name for name, normalizer in NORMALIZERS.items() if normalizer == self.normalizer)
            settings["normalizer"] = next(names, None) or getattr(self.normalizer, "__name__", self.normalizer)
        settings["dropout"] = self.dropout
        return ", ".join(f"{name}={value}" for name, value in settings.items())

    def _new_key_bias(self, bias: bool, max_length: int | None) -> nn.Parameter:
        if not bias or max_length is None:
            raise ValueError("a key bias per position needs bias=True and max_length")
        bound = self.k_proj.in_features**-0.5  # as nn.Linear initializes a shared bias
        return nn.Parameter(torch.empty(self.num_heads, max_length, self.head_dim).uniform_(-bound, bound))

    @overload
    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        return_weights: Literal[False] = False,
    ) -> Tensor: ...

    @overload
    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        *,
        return_weights: Literal[True],
    ) -> tuple[Tensor, Tensor]: ...

    def forward(
        self,
        query: Float[Tensor, "*b i d_q"],
        key: Float[Tensor, "*b j d_k"] | None = None,
        value: Float[Tensor, "*b j d_v"] | None = None,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        return_weights: bool = False,
    ) -> Float[Tensor, "*b i d_o"] | tuple[Float[Tensor, "*b i d_o"], Float[Tensor, "*b h i j"]]:
        """Attend from `query` to `key` and return the weighted values.

        Args:
            query: (batch, i, embed_dim), or unbatched (i, embed_dim).
            key: (batch, j, key_dim); the query by default (self-attention).
            value: (batch, j, value_dim); the key by default.
            mask: boolean, True where a query may attend, or float, added to the logits, minus infinity masking the
                pair. (i, j) for all heads of the batch, or (batch, H, i, j), any of which may be 1; (H, i, j) if
                unbatched. See `padding_mask` for padded keys, (batch, j), and `causal_mask`. A boolean mask is the
                negation of torch's `attn_mask`.
            bias: finite, added to the logits; shapes as for `mask`.
            return_weights: also return the weights of every head, (batch, H, i, j), before dropout.

        Returns:
            (batch, i, output_dim). A query without a valid key gets the join of zeros (the output bias), never NaN.
            NaN and infinity in rows that no query attends to, and in rows without a valid key, do not reach the
            output of other rows or any gradient.

        Raises:
            ValueError: the mask or the bias has the wrong number of dimensions, such as (batch, i, j), which is
                ambiguous, or the wrong sizes; a wrong number of channels; queries, keys and values differ in batch; the
                numbers of keys and values differ; there are more than max_length keys.
            TypeError: an integer mask, which is ambiguous, a bias that is not floating-point, or one of them that is
                no tensor.
        """
        self_attention = key is None or key is query
        key, layout = query if key is None else key, None
        _check_input_shapes(query, key, value)
        for name, x, layer in (
            ("query", query, self.q_proj),
            ("key", key, self.k_proj),
            ("value", key if value is None else value, self.v_proj),
        ):
            width = getattr(layer, "in_features", None)
            if width is not None and x.shape[-1] != width:
                raise ValueError(f"the {name} has {x.shape[-1]} channels, and the layer expects {width}")
        self._check_pairwise_shape("bias", bias, query, key)
        if mask is not None:
            self._check_pairwise_shape("mask", mask, query, key)
            # Padding is zeroed once, before the projections, rather than in the keys and values of every head: NaN in
            # it would also reach the gradients of the projections.
            mask, bias = split_mask(mask, bias)
            layout = DenseLayout(mask, padding_is_finite=True)
            query = layout.zero_nonfinite_queries(query, self_attention)
            key = layout.zero_padding(key)
            value = None if value is None else layout.zero_padding(value)
        k, v = self.project_keys_and_values(key, value)
        output, weights = self.attend_to(query, k, v, layout, bias, return_weights)
        return output if weights is None else (output, weights)

    def _check_pairwise_shape(self, name: str, x: Any, query: Tensor, key: Tensor) -> None:
        """Raise an error if a mask or bias, called `name`, is no tensor or does not broadcast to (batch, H, i, j)."""
        if x is None:
            return
        if not isinstance(x, Tensor):
            raise TypeError(f"the {name} is a tensor, not of type {type(x).__name__}: pass torch.as_tensor({name})")
        shape, dims = tuple(x.shape), query.dim() + 1
        if x.dim() not in (2, dims):
            if x.dim() == query.dim() == 3:
                raise ValueError(
                    f"a {name} {shape} of 3 dimensions is ambiguous for batched input, per item or per head: "
                    f"{name}.unsqueeze(1) makes it (batch, 1, i, j), {name}.unsqueeze(0) makes it (1, heads, i, j)"
                )
            hint = "; use padding_mask for a mask of the keys" if name == "mask" else ""
            raise ValueError(
                f"a {name} {shape} of {x.dim()} dimensions for queries {tuple(query.shape)}: it needs 2, (i, j), or "
                f"{dims}, including one for the heads{hint}"
            )
        expected = (*query.shape[:-2], self.num_heads, query.shape[-2], key.shape[-2])[-x.dim() :]
        if any(size not in (1, n) for size, n in zip(shape, expected, strict=True)):
            raise ValueError(f"a {name} {shape} does not broadcast to {tuple(expected)}, (batch, heads, i, j)")

    def project_keys_and_values(
        self, key: Float[Tensor, "*b j d_k"], value: Float[Tensor, "*b j d_v"] | None = None, offset: int = 0
    ) -> tuple[Float[Tensor, "*b h j d"], Float[Tensor, "*b h j c"]]:
        """k_j and v_j of every head: the part of `forward` that can be cached and reused for later queries.

        Args:
            key: (batch, j, key_dim).
            value: (batch, j, value_dim); the key by default.
            offset: position of the first key, for a key bias per position.

        Returns:
            (batch, H, j, head_dim) and (batch, H, j, value_head_dim).

        Raises:
            ValueError: there are more than max_length positions for a key bias per position, or `offset` is negative.
        """
        k = split_heads(self.k_proj(key), self.num_heads)
        v = split_heads(self.v_proj(key if value is None else value), self.num_heads)
        if self.key_bias is not None:
            k = k + self._key_bias_at(offset, key.shape[-2])
        return k, v

    def attend_to(
        self,
        query: Float[Tensor, "*b i d_q"],
        k: Float[Tensor, "*b h j d"],
        v: Float[Tensor, "*b h j c"],
        layout: DenseLayout | Tensor | None = None,
        bias: Tensor | None = None,
        return_weights: bool = False,
    ) -> tuple[Float[Tensor, "*b i d_o"], Float[Tensor, "*b h i j"] | None]:
        """Attend from `query` to projected keys and values: the part of `forward` after `project_keys_and_values`.

        Args:
            query: (batch, i, embed_dim).
            k, v: (batch, H, j, head_dim) and (batch, H, j, value_head_dim).
            layout: a mask as in `forward`, or a `DenseLayout`.
            bias: as in `forward`.
            return_weights: also return the weights.

        Returns:
            (batch, i, output_dim), and the weights (batch, H, i, j), or None without `return_weights`.

        Raises:
            ValueError: queries and keys differ in batch; the mask or the bias has the wrong number of dimensions or
                the wrong sizes, as in `forward`.
            TypeError: an integer mask, which is ambiguous, a bias that is not floating-point, or one of them that is
                no tensor.
        """
        if query.shape[:-2] != k.shape[:-3]:  # a batch of one would broadcast silently
            raise ValueError(
                f"queries of batch {tuple(query.shape[:-2])}, but keys and values of batch {tuple(k.shape[:-3])}"
            )
        self._check_pairwise_shape("bias", bias, query, k)
        if isinstance(layout, Tensor):
            self._check_pairwise_shape("mask", layout, query, k)
        q = split_heads(self.q_proj(query), self.num_heads)
        dropout = self.dropout if self.training else 0.0
        if not return_weights:
            heads = attend(q, k, v, layout, bias=bias, score=self.score, normalizer=self.normalizer, dropout=dropout)
            return self.join(merge_heads(heads)), None
        heads, weights = attend(
            q,
            k,
            v,
            layout,
            bias=bias,
            score=self.score,
            normalizer=self.normalizer,
            dropout=dropout,
            return_weights=True,
        )
        return self.join(merge_heads(heads)), weights

    def _key_bias_at(self, offset: int, num_keys: int) -> Tensor:
        """b_kj of `num_keys` positions from `offset` on, (H, num_keys, head_dim)."""
        assert self.key_bias is not None
        if offset < 0:  # a slice would begin at another position
            raise ValueError(f"offset must be at least 0, the position of the first key, not {offset}")
        end = offset + num_keys
        if end > self.key_bias.shape[1]:
            raise ValueError(f"{end} keys are more than the {self.key_bias.shape[1]} positions of the key bias")
        return self.key_bias[:, offset:end]

    @classmethod
    def from_torch(cls, layer: nn.MultiheadAttention) -> "MultiHeadAttention":
        """A layer with the weights, dropout, dtype, device and training mode of torch's.

        Unlike torch's, it is always batch-first, whatever the `batch_first` of `layer`; it returns the weights of every
        head, not their mean; and its boolean masks are the negation of torch's.

        Raises:
            TypeError: `layer` is not a `torch.nn.MultiheadAttention`.
            ValueError: torch's layer has a feature that is not supported: `add_bias_kv` or `add_zero_attn`, a hook, a
                subclass, or an adapter as `out_proj`; the message names it.
        """
        from molattn.attention.convert import from_torch

        return from_torch(layer)

    def to_torch(self) -> nn.MultiheadAttention:
        """torch's layer, with batch_first=True and the weights, dropout, dtype, device and training mode of this one.

        Raises:
            ValueError: this layer has a feature that torch's does not support, or a hook, a subclass or an adapter that
                the weights do not include; the message names it.
        """
        from molattn.attention.convert import to_torch

        return to_torch(self)

    @classmethod
    def from_keras(cls, layer: Any) -> "MultiHeadAttention":
        """A layer with the weights, dropout and dtype of a `keras.layers.MultiHeadAttention`, in training mode.

        Keras' attention scores, (batch, H, query, key), are this layer's weights; Keras' attention_mask, (batch, query,
        key), is this layer's mask with a dimension for the heads: `mask.unsqueeze(1)`.

        Raises:
            MissingExtra: Keras is not installed.
            TypeError: `layer` is not a `keras.layers.MultiHeadAttention`.
            ValueError: it is not built yet, or has a feature that is not supported, such as a LoRA; the message names
                it.
        """
        from molattn.attention.convert import from_keras

        return from_keras(layer)

    def to_keras(self) -> Any:
        """A `keras.layers.MultiHeadAttention` with the weights, dropout and dtype of this layer.

        Raises:
            MissingExtra: Keras is not installed.
            UsageError: Keras is installed, but not its configured backend.
            ValueError: this layer has a feature that Keras' does not support, or a hook, a subclass or an adapter that
                the weights do not include; the message names it.
        """
        from molattn.attention.convert import to_keras

        return to_keras(self)


def _check_input_shapes(query: Tensor, key: Tensor, value: Tensor | None) -> None:
    # An unbatched input or a batch of one would broadcast silently.
    batch = query.shape[:-2]
    if query.dim() < 2 or key.shape[:-2] != batch or (value is not None and value.shape[:-2] != batch):
        shapes = ", ".join(str(tuple(x.shape)) for x in (query, key, value) if x is not None)
        raise ValueError(
            f"queries, keys and values must be (batch, n, channels) of the same batch, or all unbatched; got {shapes}"
        )
    if value is not None and value.shape[-2] != key.shape[-2]:
        raise ValueError(f"{key.shape[-2]} keys and {value.shape[-2]} values: every key needs one value")
