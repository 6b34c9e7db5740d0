"""Translate a random SMILES of a molecule into its canonical SMILES: the models, their training and evaluation."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from examples.smiles_translation.pairs import (
    END,
    START,
    VOCABULARY,
    batches,
    decode,
    encode,
    pad_rows,
    pair_tensors,
    randomize_smiles,
)
from molattn.chem import canonical_smiles, read_smiles
from molattn.errors import SmilesError, UsageError
from molattn.sequence import PAD, Bahdanau, Luong, StepDecoder, Transformer, beam_search, greedy_search

Translator = Transformer | Bahdanau | Luong
_DECODING_BATCH = 128


def _transformer(width: int) -> Transformer:
    heads = max(1, width // 16)
    return Transformer(
        VOCABULARY, VOCABULARY, width, heads, num_layers=3, hidden_dim=2 * width, norm_first=True, head_dim=16
    )


def _bahdanau(width: int) -> Bahdanau:
    return Bahdanau(VOCABULARY, VOCABULARY, width // 2, width)


def _luong(width: int) -> Luong:
    return Luong(VOCABULARY, VOCABULARY, width // 2, width, num_layers=2)


TRANSLATORS: dict[str, Callable[[int], Translator]] = {
    "transformer": _transformer,
    "bahdanau": _bahdanau,
    "luong": _luong,
}
"""Functions that build a model of each kind from its width."""


@dataclass(frozen=True)
class TranslationConfig:
    """The settings of a translator and its training.

    Attributes:
        model: a name in `TRANSLATORS`.
        width: channels of the Transformer, or of a recurrent state in one direction.
        batch_size: pairs in a step.
        learning_rate: the maximum, after a linear warm-up over the first 4%; a cosine decay to 0 follows.
        steps: the maximum number of steps.
        minutes: the maximum duration, in minutes. The schedule follows steps or minutes, whichever has progressed
            further, so a training that is ended by time completes its schedule, but its weights depend on the machine.
        share: the fraction of pairs whose molecule is in `train` rather than `extra`.
        seed: of weights, batches and random SMILES.
    """

    model: str = "transformer"
    width: int = 128
    batch_size: int = 64
    learning_rate: float = 1e-3
    steps: int = 20_000
    minutes: float = math.inf
    share: float = 0.25
    seed: int = 0


@dataclass(frozen=True)
class TranslationRecord:
    """One line of the history.

    Attributes:
        step: the number of finished steps.
        seconds: since the start.
        train_loss: in nats per token, the mean since the last record.
        val_loss: in nats per token; NaN without validation molecules.
    """

    step: int
    seconds: float
    train_loss: float
    val_loss: float


@dataclass(frozen=True)
class TrainedTranslator:
    """A model in evaluation mode, and the history of its training."""

    model: Translator
    history: list[TranslationRecord]
    steps: int
    seconds: float


@dataclass(frozen=True)
class TranslationScores:
    """Fractions of `count` translations.

    Attributes:
        count: the number of translations.
        exact: the string is the canonical SMILES.
        valid: `read_smiles` can read it.
        same: it is a SMILES of the source molecule.
    """

    count: int
    exact: float
    valid: float
    same: float


def train_translator(
    train: Sequence[str],
    val: Sequence[str] = (),
    config: TranslationConfig | None = None,
    *,
    extra: Sequence[str] = (),
    record_every: int = 200,
    on_record: Callable[[TranslationRecord], None] = lambda _: None,
) -> TrainedTranslator:
    """Train a model to translate random SMILES of `train` and `extra` into canonical ones.

    loss = -mean_t log P(y_t | y_<t, source)

    AdamW, gradients clipped to norm 1; every pair has a new random SMILES. `val` is used only for the validation loss.

    Args:
        train, val: canonical SMILES.
        config: `TranslationConfig()` by default.
        extra: more canonical SMILES to train on, such as `mutate_molecules` makes.
        record_every: steps between two records.
        on_record: called with each record.

    Raises:
        UsageError: an unknown model, no molecules, or no steps.
    """
    config = config or TranslationConfig()
    if config.model not in TRANSLATORS:
        raise UsageError(f"unknown model {config.model!r}: choose one of {', '.join(TRANSLATORS)}")
    if not train or config.steps < 1 or not config.minutes > 0:
        raise UsageError("a training needs molecules, at least one step, and time")
    begin = time.perf_counter()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        model = TRANSLATORS[config.model](config.width)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.learning_rate, betas=(0.9, 0.98), weight_decay=0.01)
    validation = pair_tensors(randomize_smiles(val, config.seed), val) if val else None
    stream = batches(train, extra, batch_size=config.batch_size, share=config.share, seed=config.seed)
    history, losses, step, progress = [], [], 0, 0.0
    model.train()
    while progress < 1:
        for group in optimizer.param_groups:
            group["lr"] = config.learning_rate * _schedule(progress)
        loss = _loss(model, *next(stream))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        step += 1
        seconds = time.perf_counter() - begin
        progress = max(step / config.steps, seconds / 60 / config.minutes)
        if step % record_every == 0 or progress >= 1:
            record = TranslationRecord(step, seconds, float(np.mean(losses)), _validated(model, validation))
            history.append(record)
            losses = []
            on_record(record)
    return TrainedTranslator(model.eval(), history, step, time.perf_counter() - begin)


def translate(model: StepDecoder, sources: Sequence[str], *, beam: int = 1, max_length: int = 64) -> list[str]:
    """The output of the model for each SMILES, by beam search, or greedily with `beam` 1.

    Args:
        model: in evaluation mode.
        sources: any SMILES.
        beam: the beam size of `beam_search`.
        max_length: the maximum number of tokens of an output; longer ones are cut off.
    """
    # Sorted by length, so that batches have little padding.
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
    written = [""] * len(sources)
    for first in range(0, len(order), _DECODING_BATCH):
        rows = order[first : first + _DECODING_BATCH]
        source = pad_rows([encode(sources[i]) for i in rows])
        if beam == 1:
            tokens = greedy_search(model, source, start_token=START, end_token=END, max_length=max_length).tokens
        else:
            found = beam_search(model, source, beam_size=beam, start_token=START, end_token=END, max_length=max_length)
            tokens = found.tokens[:, 0]
        for i, codes in zip(rows, tokens.tolist(), strict=True):
            written[i] = decode(codes)
    return written


def score_translations(targets: Sequence[str], written: Sequence[str]) -> TranslationScores:
    """Scores of translations; NaN without any.

    Args:
        targets: the canonical SMILES.
        written: the outputs of a model, in the same order.
    """
    forms = [_canonical(text) for text in written]
    n = len(forms)
    if not n:
        return TranslationScores(0, math.nan, math.nan, math.nan)
    exact = sum(text == target for text, target in zip(written, targets, strict=True)) / n
    same = sum(form == target for form, target in zip(forms, targets, strict=True)) / n
    return TranslationScores(n, exact, sum(form is not None for form in forms) / n, same)


def evaluate_translator(
    model: StepDecoder, targets: Sequence[str], *, seed: int = 0, beam: int = 1, longest: int | None = None
) -> TranslationScores:
    """Scores on one random SMILES of each molecule.

    Args:
        model: in evaluation mode.
        targets: canonical SMILES that it was not trained on.
        seed: of the random SMILES, which do not depend on `longest`.
        beam: the beam size; 1 decodes greedily.
        longest: the maximum number of characters of targets; longer ones are left out.
    """
    sources = randomize_smiles(targets, seed)
    chosen = [i for i, target in enumerate(targets) if longest is None or len(target) <= longest]
    written = translate(model, [sources[i] for i in chosen], beam=beam)
    return score_translations([targets[i] for i in chosen], written)


@torch.no_grad()
def alignment_of(model: Translator, source: str, target: str) -> Float[np.ndarray, "n m"]:
    """The attention weights of each output token, including the end token, over the input tokens.

    For the Transformer, the mean over the heads of the last block's cross attention.

    Shapes: (target tokens + 1, source tokens), rows sum to 1.
    """
    tokens, outputs = pair_tensors([source], [target])
    _, weights = model(tokens, outputs[:, :-1], return_weights=True)
    if isinstance(weights, Tensor):
        return weights[0].numpy()
    return weights.cross[-1][0].mean(0).numpy()


def _loss(model: Translator, source: Tensor, target: Tensor) -> Tensor:
    logits = model(source, target[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD)


@torch.no_grad()
def _validated(model: Translator, validation: tuple[Tensor, Tensor] | None) -> float:
    if validation is None:
        return math.nan
    model.eval()
    loss = _loss(model, *validation).item()
    model.train()
    return loss


def _schedule(progress: float, warmup: float = 0.04) -> float:
    """The fraction of the maximum learning rate: from 1/25 to 1 in the warm-up, then a cosine decay to 0."""
    if progress < warmup:
        return max(progress / warmup, 0.04)
    return 0.5 * (1 + math.cos(math.pi * (progress - warmup) / (1 - warmup)))


def _canonical(text: str) -> str | None:
    try:
        return canonical_smiles(read_smiles(text))
    except SmilesError:
        return None
