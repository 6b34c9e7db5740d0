"""Stacks of layers: the encoder and the decoder, over vectors; `Transformer` puts tokens before and after them."""

from dataclasses import dataclass
from typing import Literal, cast, overload

from jaxtyping import Float
from torch import Tensor, nn

from molattn.sequence.layers import Activation, DecoderLayer, EncoderLayer, LayerCache
from molattn.sequence.masks import without_garbage


@dataclass(frozen=True)
class DecoderWeights:
    """How much each target token attended to, in every block of the decoder, first block first.

    Attributes:
        own: to the target so far, each (batch, heads, target, target).
        cross: to the source, each (batch, heads, target, source).
    """

    own: tuple[Float[Tensor, "b h n j"], ...]
    cross: tuple[Float[Tensor, "b h n m"], ...]


class Encoder(nn.Module):
    """Encoder blocks, one after the other, with a last layer norm if they are pre-norm or it is asked for.

    x_l = EncoderLayer_l(x_(l-1));    y = norm(x_L) if final_norm else x_L

    Args:
        num_layers: L.
        d_model, num_heads, hidden_dim, head_dim, activation, norm_first, dropout, layer_norm_eps, bias: those of
            `EncoderLayer`.
        final_norm: whether there is a layer norm after the last block; norm_first by default.

    Raises:
        ValueError: as `EncoderLayer`.

    Source: Vaswani et al. 2017, arXiv:1706.03762.

    >>> import torch
    >>> encoder = Encoder(num_layers=2, d_model=8, num_heads=2)
    >>> y, weights = encoder(torch.randn(3, 5, 8), return_weights=True)
    >>> tuple(y.shape), [tuple(w.shape) for w in weights]
    ((3, 5, 8), [(3, 2, 5, 5), (3, 2, 5, 5)])
    """

    def __init__(
        self,
        num_layers: int,
        d_model: int,
        num_heads: int,
        hidden_dim: int | None = None,
        *,
        head_dim: int | None = None,
        activation: str | Activation = "relu",
        norm_first: bool = False,
        dropout: float = 0.0,
        layer_norm_eps: float = 1e-5,
        bias: bool = True,
        final_norm: bool | None = None,
    ):
        super().__init__()
        layers = [
            EncoderLayer(
                d_model,
                num_heads,
                hidden_dim,
                head_dim=head_dim,
                activation=activation,
                norm_first=norm_first,
                dropout=dropout,
                layer_norm_eps=layer_norm_eps,
                bias=bias,
            )
            for _ in range(num_layers)
        ]
        self.layers = nn.ModuleList(layers)
        final_norm = norm_first if final_norm is None else final_norm
        self.norm = nn.LayerNorm(d_model, eps=layer_norm_eps, bias=bias) if final_norm else nn.Identity()

    @overload
    def forward(self, x: Tensor, mask: Tensor | None = None, return_weights: Literal[False] = False) -> Tensor: ...

    @overload
    def forward(
        self, x: Tensor, mask: Tensor | None = None, *, return_weights: Literal[True]
    ) -> tuple[Tensor, tuple[Tensor, ...]]: ...

    def forward(
        self, x: Float[Tensor, "b n d"], mask: Tensor | None = None, return_weights: bool = False
    ) -> Float[Tensor, "b n d"] | tuple[Float[Tensor, "b n d"], tuple[Float[Tensor, "b h n n"], ...]]:
        """The encoded sequence and, with `return_weights`, the weights of every block, each (batch, heads, n, n).

        Args:
            x: (batch, n, d_model).
            mask: broadcastable to (batch, heads, n, n); boolean, True where a query may attend, or float, added.
            return_weights: also return the weights, which are not computed otherwise.

        NaN and infinity in a row of x that nobody may look at, as padding, reach no other row and no gradient.
        """
        if not return_weights:
            for layer in self.layers:
                x = layer(x, mask)
            return self.norm(x)
        every = []
        for layer in self.layers:
            x, weights = layer(x, mask, return_weights=True)
            every.append(weights)
        return self.norm(x), tuple(every)

    @classmethod
    def from_torch(cls, stack: nn.TransformerEncoder) -> "Encoder":
        """The stack with the weights, settings, dtype, device and mode of torch's; as `EncoderLayer.from_torch`.

        Raises:
            ValueError: torch's stack does what this one does not; the message says what.
        """
        from molattn.sequence.convert import encoder_from_torch

        return encoder_from_torch(stack)


class Decoder(nn.Module):
    """Decoder blocks, one after the other, with a last layer norm if they are pre-norm or it is asked for.

    x_l = DecoderLayer_l(x_(l-1), memory);    y = norm(x_L) if final_norm else x_L

    Nothing is causal by itself: the mask says who may look at whom (`causal_mask`, `causal_padding_mask`).

    Args:
        num_layers: L.
        d_model, num_heads, hidden_dim, head_dim, activation, norm_first, dropout, layer_norm_eps, bias: those of
            `DecoderLayer`.
        final_norm: whether there is a layer norm after the last block; norm_first by default.

    Raises:
        ValueError: as `DecoderLayer`.

    Source: Vaswani et al. 2017, arXiv:1706.03762.
    """

    def __init__(
        self,
        num_layers: int,
        d_model: int,
        num_heads: int,
        hidden_dim: int | None = None,
        *,
        head_dim: int | None = None,
        activation: str | Activation = "relu",
        norm_first: bool = False,
        dropout: float = 0.0,
        layer_norm_eps: float = 1e-5,
        bias: bool = True,
        final_norm: bool | None = None,
    ):
        super().__init__()
        layers = [
            DecoderLayer(
                d_model,
                num_heads,
                hidden_dim,
                head_dim=head_dim,
                activation=activation,
                norm_first=norm_first,
                dropout=dropout,
                layer_norm_eps=layer_norm_eps,
                bias=bias,
            )
            for _ in range(num_layers)
        ]
        self.layers = nn.ModuleList(layers)
        final_norm = norm_first if final_norm is None else final_norm
        self.norm = nn.LayerNorm(d_model, eps=layer_norm_eps, bias=bias) if final_norm else nn.Identity()

    def begin(self, memory: Float[Tensor, "b m d"]) -> tuple[LayerCache, ...]:
        """The cache of every block before the first target token."""
        return tuple(layer.begin(memory) for layer in self._layers())

    def extend(
        self,
        x: Float[Tensor, "b n d"],
        caches: tuple[LayerCache, ...],
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        return_weights: bool = False,
    ) -> tuple[Float[Tensor, "b n d"], tuple[LayerCache, ...], DecoderWeights | None]:
        """n more target tokens after the j that the caches remember; the arguments are those of `DecoderLayer.extend`.

        Returns:
            (batch, n, d_model), the caches of all j + n tokens, and the weights of every block, each
            (batch, heads, n, j + n) and (batch, heads, n, m), None unless asked for.
        """
        after, own, cross = [], [], []
        for layer, before in zip(self._layers(), caches, strict=True):
            x, cache, weights = layer.extend(x, before, mask, memory_mask, return_weights)
            after.append(cache)
            if weights is not None:
                own.append(weights[0])
                cross.append(weights[1])
        return self.norm(x), tuple(after), DecoderWeights(tuple(own), tuple(cross)) if return_weights else None

    @overload
    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        return_weights: Literal[False] = False,
    ) -> Tensor: ...

    @overload
    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        *,
        return_weights: Literal[True],
    ) -> tuple[Tensor, DecoderWeights]: ...

    def forward(
        self,
        x: Float[Tensor, "b n d"],
        memory: Float[Tensor, "b m d"],
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        return_weights: bool = False,
    ) -> Float[Tensor, "b n d"] | tuple[Float[Tensor, "b n d"], DecoderWeights]:
        """The decoded sequence and, with `return_weights`, the weights of every block.

        Args:
            x: (batch, n, d_model).
            memory: the encoder's output, (batch, m, d_model).
            mask: over the target, broadcastable to (batch, heads, n, n); boolean, True where a query may attend, or
                float, added.
            memory_mask: over the source, broadcastable to (batch, heads, n, m), of either kind.
            return_weights: also return the weights, which are not computed otherwise.

        NaN and infinity in a row of x or of the memory that nobody may look at, as padding, reach no other row and no
        gradient.
        """
        x, memory = without_garbage(x, mask), without_garbage(memory, memory_mask)
        x, _, weights = self.extend(x, self.begin(memory), mask, memory_mask, return_weights)
        return x if weights is None else (x, weights)

    @classmethod
    def from_torch(cls, stack: nn.TransformerDecoder) -> "Decoder":
        """The stack with the weights, settings, dtype, device and mode of torch's; as `EncoderLayer.from_torch`.

        Raises:
            ValueError: torch's stack does what this one does not; the message says what.
        """
        from molattn.sequence.convert import decoder_from_torch

        return decoder_from_torch(stack)

    def _layers(self) -> list[DecoderLayer]:
        # A ModuleList tells the type checker only that it holds modules. Quoted: the compiler of torch 2.6 stops at it.
        return cast("list[DecoderLayer]", list(self.layers))
