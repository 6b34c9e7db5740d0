"""A toy translation: copy the five tokens, or reverse them."""

import pytest
import torch
import torch.nn.functional as F

from molattn.sequence import greedy_search

START, END, LENGTH = 1, 2, 5


def sources(n, generator):
    return torch.randint(3, 12, (n, LENGTH), generator=generator)


def copies(source):
    return source


def reversals(source):
    return source.flip(-1)


TRANSLATIONS = [reversals, pytest.param(copies, marks=pytest.mark.slow)]
"""Reversing is the harder task, so copying is only in the slow tests."""


def train(model, task, steps, rate):
    """Adam on cross-entropy, batches of 64."""
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps)
    model.train()
    for _ in range(steps):
        source = sources(64, generator)
        target = F.pad(F.pad(task(source), (1, 0), value=START), (0, 1), value=END)
        loss = F.cross_entropy(model(source, target[:, :-1]).flatten(0, 1), target[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    model.eval()


def accuracy(model, task):
    """The fraction of 200 new sequences that greedy search decodes without error."""
    source = sources(200, torch.Generator().manual_seed(1))
    decoded = greedy_search(model, source, start_token=START, end_token=END, max_length=LENGTH + 3)
    expected = F.pad(F.pad(task(source), (0, 1), value=END), (0, decoded.tokens.shape[1] - LENGTH - 1))
    return (decoded.tokens == expected).all(-1).double().mean().item()
