"""Multi-head attention as a layer: project, attend in every head, join."""

from typing import Any, Literal, overload

import torch
from jaxtyping import Float
from torch import Tensor, nn

from molattn.attention.arguments import check_dropout, check_sizes
from molattn.attention.attend import attend, split_mask
from molattn.attention.competitors import Rows
from molattn.attention.heads import KEEPS_HEAD_DIM, make_join, merge_heads, split_heads
from molattn.attention.normalize import NORMALIZERS, Normalizer, make_normalizer
from molattn.attention.score import Score, make_score


class MultiHeadAttention(nn.Module):
    """Multi-head attention: trainable queries, keys and values in every head, and the heads joined.

    q_i = W_q^h x_i + b_q;  k_j = W_k^h y_j + b_k;  v_j = W_v^h z_j + b_v
    head_h = sum_j w_ij v_j,  w_ij = normalize_j( score(q_i, k_j) + bias_ij );    output = join(head_1, ..., head_H)

    Args:
        embed_dim: channels of the queries and, unless `output_dim` is given, of the output.
        num_heads: H.
        head_dim: channels of a query and a key in one head (Keras' key_dim); embed_dim / num_heads by default.
        value_head_dim: channels of a value in one head (Keras' value_dim); head_dim by default.
        key_dim, value_dim: channels of the keys and the values given to `forward`; embed_dim by default.
        output_dim: channels of the output; embed_dim by default, value_head_dim where the join keeps those.
        bias: whether the projections and the concatenating join have one.
        dropout: probability of dropping a weight, in training.
        score: a name in `SCORES` or `SCORES_WITH_WEIGHTS`, or a score for queries and keys of head_dim channels. All
            heads share its weights; each head has its own W_q and W_k in front of it.
        normalizer: a name in `NORMALIZERS`, or a function such as `Softmax(temperature)`.
        join: a name in `JOINS` ("concat", "w_jhl", "w_h", "mean", "max"), or a module that takes the heads side by
            side.
        key_bias: "shared", one b_k for all keys; or "per_position", b_kj for the key at position j, with which a head
            can look at a place whatever stands there: a parameter `key_bias`, (H, positions, head_dim).
        positions: the largest number of keys, for key_bias "per_position" and for score "location".

    Raises:
        ValueError: head_dim is not given and num_heads does not divide embed_dim; a size below 1; a dropout that is not
            from 0 to below 1; an unknown name; a bias per position with bias=False or without `positions`; an
            output_dim that the join cannot give.

    Source: Vaswani et al. 2017, arXiv:1706.03762.

    >>> import torch
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
        positions: int | None = None,
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
            positions=positions,
        )
        check_dropout(dropout)
        if head_dim is None:
            if embed_dim % num_heads:
                raise ValueError(f"{num_heads} heads do not divide embed_dim {embed_dim}: give head_dim")
            head_dim = embed_dim // num_heads
        value_head_dim = value_head_dim or head_dim
        if key_bias not in ("shared", "per_position"):
            raise ValueError(f"unknown key_bias {key_bias!r}: choose one of shared, per_position")
        self.embed_dim, self.num_heads, self.dropout = embed_dim, num_heads, dropout
        self.head_dim, self.value_head_dim = head_dim, value_head_dim
        self.score = make_score(score, head_dim, head_dim, max_length=positions)
        self.normalizer = make_normalizer(normalizer)
        self.q_proj = nn.Linear(embed_dim, num_heads * head_dim, bias=bias)
        self.k_proj = nn.Linear(key_dim or embed_dim, num_heads * head_dim, bias=bias and key_bias == "shared")
        self.v_proj = nn.Linear(value_dim or embed_dim, num_heads * value_head_dim, bias=bias)
        self.key_bias = self._bias_per_position(bias, positions) if key_bias == "per_position" else None
        if isinstance(join, str):
            output_dim = output_dim or (value_head_dim if join in KEEPS_HEAD_DIM else embed_dim)
            join = make_join(join, num_heads, value_head_dim, output_dim, bias)
        self.join = join

    def extra_repr(self) -> str:
        settings: dict[str, Any] = {"embed_dim": self.embed_dim, "num_heads": self.num_heads, "head_dim": self.head_dim}
        if self.value_head_dim != self.head_dim:
            settings["value_head_dim"] = self.value_head_dim
        # What has weights is listed among the parts.
        if not isinstance(self.score, nn.Module):
            settings["score"] = getattr(self.score, "__name__", self.score)
        if not isinstance(self.normalizer, nn.Module):
            names = (name for name, known in NORMALIZERS.items() if known == self.normalizer)
            settings["normalizer"] = next(names, None) or getattr(self.normalizer, "__name__", self.normalizer)
        settings["dropout"] = self.dropout
        return ", ".join(f"{name}={value}" for name, value in settings.items())

    def _bias_per_position(self, bias: bool, positions: int | None) -> nn.Parameter:
        if not bias or positions is None:
            raise ValueError("a key bias per position needs bias=True and the number of positions")
        bound = self.k_proj.in_features**-0.5  # as nn.Linear draws the bias it shares
        return nn.Parameter(torch.empty(self.num_heads, positions, self.head_dim).uniform_(-bound, bound))

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
        """Attend from `query` to `key` and return the values found there.

        Args:
            query: (batch, i, embed_dim), or without the batch.
            key: (batch, j, key_dim); the query by default (self-attention).
            value: (batch, j, value_dim); the key by default.
            mask: boolean, True where a query may attend, or float, added, minus infinity forbidding the pair. (i, j)
                for all heads of the batch, or (batch, H, i, j), any of which may be 1; without a batch (H, i, j). Who
                is there among the keys, (batch, j), goes in as `padding_mask` of it; the past alone as `causal_mask`.
            bias: finite, broadcastable to (batch, H, i, j), added to the logits.
            return_weights: also return the weights of every head, (batch, H, i, j), before dropout.

        Returns:
            (batch, i, output_dim); a query with nobody to attend to gets what the join makes of zeros (the output
            bias), never NaN. NaN and infinity in a row that nobody may look at, and in one that may look at nobody,
            reach no other row's output and no gradient.

        Raises:
            ValueError: a mask of other dimensions, as (batch, i, j), which could be one for each head; or of other
                sizes; queries, keys and values of other batches; other numbers of keys and values; more keys than a
                bias or a score per position has positions.
        """
        alone = key is None or key is query
        key, over = query if key is None else key, None
        _check_inputs(query, key, value)
        if mask is not None:
            self._check_mask(mask, query, key)
            # Once here, rather than in the keys and values of every head; and NaN there would reach the gradients of
            # the projections.
            mask, bias = split_mask(mask, bias)
            over = Rows(mask, blank=True)
            query = over.finite_queries(query, alone)
            key = over.padding_blanked(key)
            value = None if value is None else over.padding_blanked(value)
        k, v = self.keys_and_values(key, value)
        output, weights = self.attend_to(query, k, v, over, bias, return_weights)
        return output if weights is None else (output, weights)

    def _check_mask(self, mask: Tensor, query: Tensor, key: Tensor) -> None:
        shape, dims = tuple(mask.shape), query.dim() + 1
        if mask.dim() not in (2, dims):
            if mask.dim() == query.dim() == 3:
                raise ValueError(
                    f"a mask {shape} of 3 dimensions for a batch could be one for each item or one for each head: "
                    "mask.unsqueeze(1) makes it (batch, 1, i, j), mask.unsqueeze(0) makes it (1, heads, i, j)"
                )
            raise ValueError(
                f"a mask {shape} of {mask.dim()} dimensions for queries {tuple(query.shape)}: it has 2, (i, j), or "
                f"{dims}, one of them for the heads; padding_mask makes one of who is there among the keys"
            )
        wanted = (*query.shape[:-2], self.num_heads, query.shape[-2], key.shape[-2])[-mask.dim() :]
        if any(size not in (1, n) for size, n in zip(shape, wanted, strict=True)):
            raise ValueError(f"a mask {shape} does not broadcast to {tuple(wanted)}, of (batch, heads, i, j)")

    def keys_and_values(
        self, key: Float[Tensor, "*b j d_k"], value: Float[Tensor, "*b j d_v"] | None = None, first: int = 0
    ) -> tuple[Float[Tensor, "*b h j d"], Float[Tensor, "*b h j c"]]:
        """k_j and v_j of every head: the part of `forward` that can be done once and kept while queries come.

        Args:
            key: (batch, j, key_dim).
            value: (batch, j, value_dim); the key by default.
            first: the position of the first key, for a key bias per position.

        Returns:
            (batch, H, j, head_dim) and (batch, H, j, value_head_dim).

        Raises:
            ValueError: more keys than a bias per position has positions.
        """
        k = split_heads(self.k_proj(key), self.num_heads)
        v = split_heads(self.v_proj(key if value is None else value), self.num_heads)
        if self.key_bias is not None:
            k = k + self._key_bias_of(first, key.shape[-2])
        return k, v

    def attend_to(
        self,
        query: Float[Tensor, "*b i d_q"],
        k: Float[Tensor, "*b h j d"],
        v: Float[Tensor, "*b h j c"],
        mask: Rows | Tensor | None = None,
        bias: Tensor | None = None,
        return_weights: bool = False,
    ) -> tuple[Float[Tensor, "*b i d_o"], Float[Tensor, "*b h i j"] | None]:
        """The rest of `forward`, from what `keys_and_values` gave.

        Returns:
            (batch, i, output_dim), and the weights (batch, H, i, j), None and not computed unless asked for.

        Raises:
            ValueError: a mask of other dimensions or sizes, as `forward`.
        """
        if isinstance(mask, Tensor):
            self._check_mask(mask, query, k)
        q = split_heads(self.q_proj(query), self.num_heads)
        dropout = self.dropout if self.training else 0.0
        if not return_weights:
            heads = attend(q, k, v, mask, bias=bias, score=self.score, normalizer=self.normalizer, dropout=dropout)
            return self.join(merge_heads(heads)), None
        heads, weights = attend(
            q,
            k,
            v,
            mask,
            bias=bias,
            score=self.score,
            normalizer=self.normalizer,
            dropout=dropout,
            return_weights=True,
        )
        return self.join(merge_heads(heads)), weights

    def _key_bias_of(self, first: int, num_keys: int) -> Tensor:
        assert self.key_bias is not None
        last = first + num_keys
        if last > self.key_bias.shape[1]:
            raise ValueError(f"{last} keys are more than the {self.key_bias.shape[1]} positions of the key bias")
        return self.key_bias[:, first:last]

    @classmethod
    def from_torch(cls, layer: nn.MultiheadAttention) -> "MultiHeadAttention":
        """The layer with the weights, dropout, dtype, device and mode of torch's.

        This one always puts the batch first, whatever the other's `batch_first`, returns the weights of every head,
        not their mean, and takes the opposite of torch's boolean masks.

        Raises:
            ValueError: torch's layer has `add_bias_kv` or `add_zero_attn`, which this one does not.
        """
        from molattn.attention.exchange import from_torch

        return from_torch(layer)

    def to_torch(self) -> nn.MultiheadAttention:
        """torch's layer, with the batch first, and these weights, dropout, dtype, device and mode.

        Raises:
            ValueError: torch's layer cannot do what this one does; the message says what.
        """
        from molattn.attention.exchange import to_torch

        return to_torch(self)

    @classmethod
    def from_keras(cls, layer: Any) -> "MultiHeadAttention":
        """The layer with the weights, dropout and dtype of a `keras.layers.MultiHeadAttention`, in training mode.

        Keras' attention scores, (batch, H, query, key), are this layer's weights; its attention_mask, (batch, query,
        key), is this layer's mask with a dimension for the heads: `mask.unsqueeze(1)`.

        Raises:
            MissingExtra: Keras is not installed.
            TypeError: not a `keras.layers.MultiHeadAttention`.
            ValueError: it has no weights yet, or does what this layer does not; the message says what.
        """
        from molattn.attention.exchange import from_keras

        return from_keras(layer)

    def to_keras(self) -> Any:
        """A `keras.layers.MultiHeadAttention` with these weights, dropout and dtype.

        Raises:
            MissingExtra: Keras is not installed.
            UsageError: Keras is, but not the backend it is set to.
            ValueError: Keras' layer cannot do what this one does; the message says what.
        """
        from molattn.attention.exchange import to_keras

        return to_keras(self)


def _check_inputs(query: Tensor, key: Tensor, value: Tensor | None) -> None:
    # One without a batch, or a batch of one, would be broadcast.
    batch = query.shape[:-2]
    if query.dim() < 2 or key.shape[:-2] != batch or (value is not None and value.shape[:-2] != batch):
        every = ", ".join(str(tuple(x.shape)) for x in (query, key, value) if x is not None)
        raise ValueError(f"queries, keys and values are (batch, n, channels) of one batch, or all without; got {every}")
    if value is not None and value.shape[-2] != key.shape[-2]:
        raise ValueError(f"{key.shape[-2]} keys and {value.shape[-2]} values: every key has one value")
