"""Pairs of a random SMILES and the canonical SMILES of a molecule, as token codes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from molattn.chem import TOKENS, nci_molecules, random_smiles, read_smiles, tokenize
from molattn.data.splits.splitters import random_split
from molattn.errors import InputError

START, END = len(TOKENS), len(TOKENS) + 1
VOCABULARY = len(TOKENS) + 2
"""The number of codes: the tokens of SMILES, with padding as code 0, then the start and end tokens."""

_CODES = {token: code for code, token in enumerate(TOKENS)}
_POOL = 16  # batches drawn at once, so that each can hold targets of similar length


@dataclass(frozen=True)
class SmilesSplit:
    """Canonical SMILES of distinct molecules, each in one split."""

    train: list[str]
    val: list[str]
    test: list[str]


def nci_split(max_length: int, sizes: Sequence[float] = (0.8, 0.05, 0.15), seed: int = 0) -> SmilesSplit:
    """A random split of the molecules of `nci_molecules`.

    Args:
        max_length: the maximum number of characters of a canonical SMILES.
        sizes: the fractions of train, val and test.
        seed: of `random_split`.
    """
    smiles = nci_molecules(max_length)
    labels = random_split(smiles, sizes, seed)
    parts = {name: [s for s, label in zip(smiles, labels, strict=True) if label == name] for name in set(labels)}
    return SmilesSplit(parts.get("train", []), parts.get("val", []), parts.get("test", []))


def encode(smiles: str) -> list[int]:
    """The codes of the tokens of a SMILES, without start and end.

    Raises:
        InputError: it holds an unknown token.
    """
    try:
        return [_CODES[token] for token in tokenize(smiles)]
    except KeyError as error:
        raise InputError(f"no token for {error.args[0]!r} in {smiles!r}") from None


def decode(codes: Sequence[int]) -> str:
    """The SMILES of a sequence of codes, up to the first end token; a start token, which is an error, becomes "?"."""
    text = []
    for code in codes:
        if code == END:
            break
        text.append("?" if code == START else TOKENS[code])
    return "".join(text)


def pad_rows(rows: Sequence[Sequence[int]]) -> Int[Tensor, "b n"]:
    """Rows of codes as one matrix, padded with 0 at the end."""
    matrix = torch.zeros(len(rows), max(map(len, rows), default=0), dtype=torch.long)
    for i, row in enumerate(rows):
        matrix[i, : len(row)] = torch.as_tensor(row)
    return matrix


def randomize_smiles(smiles: Sequence[str], seed: int) -> list[str]:
    """A random SMILES of each molecule; the same seed gives the same SMILES."""
    draw = np.random.default_rng(seed)
    return [random_smiles(read_smiles(s), int(draw.integers(2**31 - 1))) for s in smiles]


def pair_tensors(sources: Sequence[str], targets: Sequence[str]) -> tuple[Int[Tensor, "b m"], Int[Tensor, "b n"]]:
    """The codes of the sources, (b, m), and of the targets with start and end tokens, (b, n)."""
    return pad_rows([encode(s) for s in sources]), pad_rows([[START, *encode(t), END] for t in targets])


def batches(
    smiles: Sequence[str], extra: Sequence[str], *, batch_size: int, share: float, seed: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """An infinite iterator of batches of `pair_tensors`, each pair with a new random SMILES.

    Args:
        smiles: canonical SMILES.
        extra: more canonical SMILES.
        batch_size: pairs in a batch.
        share: the mean fraction of pairs whose molecule is in `smiles`; 1 if `extra` is empty.
        seed: the same seed gives the same batches.
    """
    draw = np.random.default_rng(seed)
    sources = [(s, [read_smiles(x) for x in s]) for s in (list(smiles), list(extra))]
    while True:
        pairs = []
        for _ in range(_POOL * batch_size):
            texts, mols = sources[int(bool(extra) and draw.random() >= share)]
            i = int(draw.integers(len(texts)))
            pairs.append((random_smiles(mols[i], int(draw.integers(2**31 - 1))), texts[i]))
        pairs.sort(key=lambda pair: len(pair[1]))
        for k in draw.permutation(_POOL):
            chosen = pairs[k * batch_size : (k + 1) * batch_size]
            yield pair_tensors([s for s, _ in chosen], [t for _, t in chosen])
