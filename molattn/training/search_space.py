"""The search space of hyper-parameters: the values of each setting, by its name."""

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from molattn.errors import UsageError, short_repr
from molattn.training.bases import AUTO_BASE, NO_BASE, fixed_by_base
from molattn.training.run_config import RunConfig

# A range with at least this ratio of its ends is searched on a logarithmic scale.
_LOG_RATIO = 10.0
_RANGE = re.compile(r"\s*([-+.\deE]+)\s*\.\.\s*([-+.\deE]+)\s*")


@dataclass(frozen=True)
class Categorical:
    """One of several values.

    Attributes:
        values: numbers, texts, or true and false.
    """

    values: tuple[Any, ...]

    def contains(self, value: Any) -> bool:
        """Whether it is one of the values."""
        return value in self.values


@dataclass(frozen=True)
class NumericRange:
    """A number from `low` to `high`, both included.

    Attributes:
        low, high: the ends of the range.
        is_integer: whether it is an integer.
        log: whether it is sampled on a logarithmic scale.
    """

    low: int | float
    high: int | float
    is_integer: bool
    log: bool

    def contains(self, value: Any) -> bool:
        """Whether it is a number in the range."""
        return isinstance(value, int | float) and self.low <= value <= self.high


Space = dict[str, Categorical | NumericRange]
"""The values of each setting, by its name, such as "model.num_layers"."""

DEFAULT_SPACE: Space = {
    "model.hidden_dim": Categorical((32, 64, 96, 128)),
    "model.num_layers": NumericRange(2, 6, True, False),
    "model.dropout": NumericRange(0.0, 0.3, False, False),
    "model.readout": Categorical(("mean", "sum", "attention")),
    "training.learning_rate": NumericRange(2e-4, 5e-3, False, True),
    "training.weight_decay": NumericRange(1e-4, 1e-1, False, True),
    "training.batch_size": Categorical((16, 32, 64)),
}
"""The default search space; settings that the model lacks or that its base model fixes are left out."""


def search_space(texts: Iterable[str], config: RunConfig) -> Space:
    """The space that `--search` describes, or the default one if `texts` is empty.

    If `config` names a base model, the default space leaves out the settings that the base model fixes.

    Each text is "section.setting=" followed by a list in TOML, [32, 64], or a range, 2..6 or 1e-4..1e-2; a range of
    positive numbers that spans a factor of ten is searched on a logarithmic scale.

    Raises:
        UsageError: a setting that does not exist or cannot be searched, or a value that it does not take.
    """
    texts = list(texts)
    if not texts:
        from_base = config.training.base not in (AUTO_BASE, NO_BASE)
        return {
            name: values
            for name, values in DEFAULT_SPACE.items()
            if _has(config, name) and not (from_base and fixed_by_base(name))
        }
    space: Space = {}
    for text in texts:
        name, equals, candidates = text.partition("=")
        name = name.strip()
        if not equals:
            raise UsageError(f"--search {short_repr(text)}: write section.setting=[32, 64] or section.setting=2..6")
        if name in _NOT_SEARCHED or name.partition(".")[0] not in ("model", "training"):
            raise UsageError(f"--search {short_repr(text)}: {name} determines what is compared, and cannot be searched")
        found = _parsed(candidates, text)
        # Both ends, or every value, are validated as settings.
        for value in found.values if isinstance(found, Categorical) else (found.low, found.high):
            is_integer = isinstance(found, NumericRange) and found.is_integer
            config = with_settings(config, {name: int(value) if is_integer else value}, f"--search {text}")
        space[name] = found
    return space


def with_settings(config: RunConfig, values: dict[str, Any], source: str) -> RunConfig:
    """The settings with some of them changed, by their names "section.setting"; UsageError as `RunConfig.updated`."""
    for name, value in values.items():
        section, _, key = name.partition(".")
        config = config.updated({section: {key: value}}, source)
    return config


def value_of(config: RunConfig, name: str) -> Any:
    """The value of the setting "section.setting"."""
    section, _, key = name.partition(".")
    return getattr(getattr(config, section), key)


def _has(config: RunConfig, name: str) -> bool:
    section, _, key = name.partition(".")
    return hasattr(getattr(config, section), key)


def _parsed(candidates: str, text: str) -> Categorical | NumericRange:
    if found := _RANGE.fullmatch(candidates):
        try:
            low, high = (tomllib.loads(f"v = {end}")["v"] for end in found.groups())
        except tomllib.TOMLDecodeError:
            low = high = 0
        if not low < high:
            raise UsageError(f"--search {short_repr(text)}: a range goes from a lower to a higher number, such as 2..6")
        is_integer = isinstance(low, int) and isinstance(high, int)
        return NumericRange(low, high, is_integer, low > 0 and high / low >= _LOG_RATIO)
    try:
        values = tomllib.loads(f"v = {candidates}")["v"]
    except tomllib.TOMLDecodeError:
        values = None
    if not isinstance(values, list) or len(values) < 2 or not all(isinstance(v, str | int | float) for v in values):
        raise UsageError(f"--search {short_repr(text)}: give a list of two values or more, [32, 64], or a range, 2..6")
    return Categorical(tuple(values))


_NOT_SEARCHED = (
    *("model.kind", "training.seed", "training.loss", "training.metrics", "training.num_replicates"),
    "training.base",
)
