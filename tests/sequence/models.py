"""Small models of every kind, with weights large enough that predictions depend on the inputs."""

import torch

from molattn.sequence import Bahdanau, Luong, Transformer
from tests.sequence.torch_stacks import randomize

F64 = torch.float64
SOURCE = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 0, 0], [5, 0, 0, 0, 0]])
TARGET = torch.tensor([[1, 7, 1, 6], [1, 5, 1, 0], [1, 4, 0, 0]])

KINDS = {
    "transformer": lambda vocab: Transformer(10, vocab, 8, 2, num_layers=2, hidden_dim=12),
    "transformer, pre-norm": lambda vocab: Transformer(10, vocab, 8, 2, num_layers=2, hidden_dim=12, norm_first=True),
    "bahdanau": lambda vocab: Bahdanau(10, vocab, 5, 6),
    "luong, lstm, general": lambda vocab: Luong(10, vocab, 5, 6, num_layers=2),
    "luong, gru, concat": lambda vocab: Luong(10, vocab, 5, 6, cell="gru", score="concat"),
    "luong, location": lambda vocab: Luong(10, vocab, 5, 6, score="location", max_source_length=9),
}
ALL = list(KINDS)
RECURRENT = [name for name in ALL if not name.startswith("transformer")]


def make(name, seed=0, vocab=8):
    """In float64 and in evaluation mode."""
    torch.manual_seed(seed)
    return randomize(KINDS[name](vocab))
