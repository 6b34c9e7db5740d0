"""Where hyper-parameters are looked for: settings by name, and what each may be."""

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from molattn.errors import UsageError, short_repr
from molattn.training.config import RunConfig

# A range that spans as much is searched on a logarithmic scale.
_WIDE = 10.0
_RANGE = re.compile(r"\s*([-+.\deE]+)\s*\.\.\s*([-+.\deE]+)\s*")


@dataclass(frozen=True)
class Choice:
    """One of several values.

    Attributes:
        values: numbers, texts, or true and false.
    """

    values: tuple[Any, ...]


@dataclass(frozen=True)
class Between:
    """A number from `low` to `high`, both included.

    Attributes:
        whole: whether it is a whole number.
        log: whether its logarithm is what is equally likely.
    """

    low: int | float
    high: int | float
    whole: bool
    log: bool


Space = dict[str, Choice | Between]
"""By the name of the setting, such as "model.num_layers"."""

DEFAULT: Space = {
    "model.hidden_dim": Choice((32, 64, 96, 128)),
    "model.num_layers": Between(2, 6, True, False),
    "model.dropout": Between(0.0, 0.3, False, False),
    "model.readout": Choice(("mean", "sum", "attention")),
    "training.learning_rate": Between(2e-4, 5e-3, False, True),
    "training.weight_decay": Between(1e-4, 1e-1, False, True),
    "training.batch_size": Choice((16, 32, 64)),
}
"""What is searched where nobody says otherwise, as far as the model has these settings."""


def search_space(texts: Iterable[str], config: RunConfig) -> Space:
    """The space that `--search` describes, or the default one where `texts` is empty.

    Each is "section.setting=" and then a list in TOML, [32, 64], or a range, 2..6 or 1e-4..1e-2; a range of positive
    numbers that spans a factor of ten is searched on a logarithmic scale.

    Raises:
        UsageError: a setting that does not exist or cannot be searched, or a value that it does not take.
    """
    texts = list(texts)
    if not texts:
        return {name: where for name, where in DEFAULT.items() if _has(config, name)}
    space: Space = {}
    for text in texts:
        name, equals, where = text.partition("=")
        name = name.strip()
        if not equals:
            raise UsageError(f"--search {short_repr(text)}: write section.setting=[32, 64] or section.setting=2..6")
        if name in _FIXED or name.partition(".")[0] not in ("model", "training"):
            raise UsageError(f"--search {short_repr(text)}: {name} says what is compared, and is not searched")
        found = _parsed(where, text)
        # Both ends, or every value, are tried on the settings themselves: they say what is wrong.
        for value in found.values if isinstance(found, Choice) else (found.low, found.high):
            config = with_values(config, {name: _number(value, found)}, f"--search {text}")
        space[name] = found
    return space


def with_values(config: RunConfig, values: dict[str, Any], source: str) -> RunConfig:
    """The settings with some of them changed, by their names "section.setting"; UsageError as `RunConfig.updated`."""
    for name, value in values.items():
        section, _, key = name.partition(".")
        config = config.updated({section: {key: value}}, source)
    return config


def _has(config: RunConfig, name: str) -> bool:
    section, _, key = name.partition(".")
    return hasattr(getattr(config, section), key)


def _parsed(where: str, text: str) -> Choice | Between:
    if found := _RANGE.fullmatch(where):
        try:
            low, high = (tomllib.loads(f"v = {end}")["v"] for end in found.groups())
        except tomllib.TOMLDecodeError:
            low = high = 0
        if not low < high:
            raise UsageError(f"--search {short_repr(text)}: a range goes from a lower to a higher number, such as 2..6")
        whole = isinstance(low, int) and isinstance(high, int)
        return Between(low, high, whole, low > 0 and high / low >= _WIDE)
    try:
        values = tomllib.loads(f"v = {where}")["v"]
    except tomllib.TOMLDecodeError:
        values = None
    if not isinstance(values, list) or len(values) < 2 or not all(isinstance(v, str | int | float) for v in values):
        raise UsageError(f"--search {short_repr(text)}: give a list of two values or more, [32, 64], or a range, 2..6")
    return Choice(tuple(values))


def _number(value: Any, where: Choice | Between) -> Any:
    return int(value) if isinstance(where, Between) and where.whole else value


_FIXED = ("model.kind", "training.seed", "training.loss", "training.metrics", "training.num_replicates")
