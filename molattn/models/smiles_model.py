"""The SMILES model: a Transformer encoder over tokens, instead of the graph."""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from molattn.chem import DEFAULT_READ_OPTIONS, TOKENS, Progress, ReadOptions, SmilesTokens, tokenize_all
from molattn.data.store.batches import TokenBatch, collate_tokens
from molattn.data.store.packing import TokenPacking
from molattn.errors import SmilesError
from molattn.models.base import MoleculeModel, to_float64
from molattn.models.config import SmilesModelConfig
from molattn.models.readers import check_no_conformers, token_reader, token_vocabulary
from molattn.sequence import PAD, Encoder, PositionalEmbedding, padding_mask


class SmilesModel(MoleculeModel):
    """Properties of molecules from attention over all pairs of tokens of their canonical SMILES.

    x_p = sqrt(d) E[token_p] + P_p
    y   = W [mean_p encoder(x)_p, z] + b

    Unlike the graph model, it has to infer bonds and rings from brackets and digits. Because the SMILES are canonical,
    the output is the same for every SMILES of a molecule.

    Args:
        config: its configuration.
        num_outputs: the number of outputs y.
        atom_level: must be False, since the positions are tokens.
        num_descriptors: k, the number of the standardized descriptors z.

    Raises:
        ValueError: num_heads does not divide hidden_dim, or atom_level is True.
    """

    def __init__(
        self, config: SmilesModelConfig, num_outputs: int = 1, atom_level: bool = False, num_descriptors: int = 0
    ):
        super().__init__(config, num_outputs, atom_level, num_descriptors)
        self.config = config
        d = config.hidden_dim
        self.embed = PositionalEmbedding(len(TOKENS), d, dropout=config.dropout)
        self.encoder = Encoder(
            config.num_layers,
            d,
            config.num_heads,
            config.feed_forward * d,
            activation="gelu",
            norm_first=True,
            dropout=config.dropout,
        )
        self.head = nn.Linear(d + num_descriptors, num_outputs)

    collate = staticmethod(collate_tokens)
    position_type = "tokens"

    @staticmethod
    def read(
        smiles: Iterable[object],
        options: ReadOptions = DEFAULT_READ_OPTIONS,
        num_workers: int = 0,
        progress: Progress | None = None,
    ) -> list[SmilesTokens | SmilesError]:
        """The tokens of many SMILES: see `molattn.chem.tokenize_all`.

        Raises:
            UsageError: conformers; tokens have no distances.
        """
        check_no_conformers(options)
        return tokenize_all(
            smiles,
            add_hs=options.add_hs,
            max_atoms=options.max_atoms,
            num_workers=num_workers,
            progress=progress,
            standardize=options.standardize,
        )

    @staticmethod
    def reader(options: ReadOptions = DEFAULT_READ_OPTIONS) -> Callable[[object], SmilesTokens]:
        """A function from one SMILES to its tokens: see `molattn.chem.smiles_tokens`.

        Raises:
            UsageError: conformers; tokens have no distances.
        """
        return token_reader(options)

    @staticmethod
    def packing(*, conformers: bool = False) -> TokenPacking:  # noqa: ARG004 (tokens have none)
        """Tokens in a flat column."""
        return TokenPacking()

    @staticmethod
    def vocabulary() -> dict[str, list[str]]:
        """Every token."""
        return token_vocabulary()

    def forward(self, batch: TokenBatch) -> Tensor:
        """(b, outputs) raw outputs, see `MoleculeModel.forward`."""
        return self.apply_head(self.embeddings(batch))

    def attention(self, batch: TokenBatch) -> tuple[Tensor, Tensor]:
        """The result of `forward`, and the attention weights of every layer and head, (b, layers, heads, n, n)."""
        tokens = batch.codes.int()
        x, weights = self.encoder(self.embed(tokens), padding_mask(tokens != PAD), return_weights=True)
        return self.apply_head(self.append_descriptors(self.pool(x, tokens), batch)), torch.stack(weights, dim=1)

    def embeddings(self, batch: TokenBatch) -> Tensor:
        """See `MoleculeModel.embeddings`: the embedding of a molecule is the mean over its tokens."""
        tokens = batch.codes.int()
        return self.append_descriptors(
            self.pool(self.encoder(self.embed(tokens), padding_mask(tokens != PAD)), tokens), batch
        )

    def pool(self, x: Tensor, tokens: Tensor) -> Tensor:
        """(b, d), the mean over the tokens."""
        mask = (tokens != PAD).unsqueeze(-1)
        total = to_float64(x).masked_fill(~mask, 0.0).sum(1)
        return total / mask.sum(1)
