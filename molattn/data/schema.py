"""Plain data from a file that anybody may have written: JSON read strictly, and held to a table of what it may be.

A table is made of `Whole`, `Real`, `Flag`, `Text`, `OneOf`, `Each`, `Fields`, `Some`, `Maybe` and `Anything`. Each
reads a value, and raises `Misfit`, which names the place, the value and what may stand there.
"""

import json
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from molattn.errors import short_repr

LARGEST = sys.float_info.max
"""The largest finite number."""


class Misfit(ValueError):
    """A value that may not stand where it stands; its text is a clause that says so."""


@runtime_checkable
class Kind(Protocol):
    """What a value may be."""

    def read(self, value: Any, place: str) -> Any:
        """The value, in the type that it is used in; Misfit where it is another."""
        ...


def strict_json(data: bytes) -> Any:
    """What JSON in UTF-8 says; nothing that JSON does not have, such as NaN, and no key of an object twice.

    Raises:
        ValueError: it is no such JSON.
    """
    try:
        return json.loads(data.decode(), object_pairs_hook=_object, parse_constant=_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise Misfit(f"{short_repr(twice)} stands there twice")
    return found


def _constant(name: str) -> None:
    raise Misfit(f"{name} stands there, which is no number in JSON")


def misfit(place: str, value: object, wanted: str) -> Misfit:
    """The value at `place` is not what is `wanted`."""
    # A long text or list is not written out only to be cut.
    short = value[:100] if isinstance(value, str | list | tuple) else value
    if isinstance(value, dict):
        short = dict(list(value.items())[:5])
    elif isinstance(value, int) and abs(value) >= 10**100:
        return Misfit(f"{place} is a number of over 100 digits, and must be {wanted}")
    try:
        said = short_repr(short)
    except RecursionError:
        said = "nested deeply"
    return Misfit(f"{place} is {said}, and must be {wanted}")


@dataclass(frozen=True)
class Whole:
    """A whole number from `least` to `most`; neither true nor 1.0."""

    least: int
    most: int

    @property
    def wanted(self) -> str:
        return f"a whole number from {self.least:,} to {self.most:,}"

    def read(self, value: Any, place: str) -> int:
        if type(value) is not int or not self.least <= value <= self.most:
            raise misfit(place, value, self.wanted)
        return value


@dataclass(frozen=True)
class Real:
    """A finite number from `least` to `most`, or, where `open`, between them."""

    least: float = -LARGEST
    most: float = LARGEST
    open: bool = False

    @property
    def wanted(self) -> str:
        low, high = abs(self.least) < LARGEST, abs(self.most) < LARGEST
        if low and high:
            return f"a number {'between' if self.open else 'from'} {self.least:g} {'and' if self.open else 'to'} " + (
                f"{self.most:g}"
            )
        if low:
            return f"a finite number {'above' if self.open else 'of at least'} {self.least:g}"
        return "a finite number"

    def read(self, value: Any, place: str) -> float:
        fits = type(value) in (int, float) and self.least <= value <= self.most
        if not fits or (self.open and value in (self.least, self.most)):
            raise misfit(place, value, self.wanted)
        return float(value)


@dataclass(frozen=True)
class Flag:
    """True or false."""

    wanted = "true or false"

    def read(self, value: Any, place: str) -> bool:
        if type(value) is not bool:
            raise misfit(place, value, self.wanted)
        return value


@dataclass(frozen=True)
class Text:
    """A text of `least` to `most` characters that can be written in UTF-8."""

    most: int
    least: int = 0

    @property
    def wanted(self) -> str:
        return f"a text of {self.least:,} to {self.most:,} characters, each of which UTF-8 has"

    def read(self, value: Any, place: str) -> str:
        if type(value) is not str or not self.least <= len(value) <= self.most:
            raise misfit(place, value, self.wanted)
        try:
            value.encode()
        except UnicodeEncodeError:
            raise misfit(place, value, self.wanted) from None
        return value


@dataclass(frozen=True)
class OneOf:
    """One of some texts."""

    choices: Collection[str]

    def read(self, value: Any, place: str) -> str:
        if type(value) is not str or value not in self.choices:
            raise misfit(place, value, f"one of {', '.join(self.choices)}")
        return value


@dataclass(frozen=True)
class Each:
    """A list of `least` to `most` values of one kind, read as a tuple."""

    kind: Kind
    most: int
    least: int = 0

    def read(self, value: Any, place: str) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise misfit(place, value, f"a list of {self.least:,} to {self.most:,} values")
        if not self.least <= len(value) <= self.most:
            raise Misfit(f"{place} has {len(value):,} values, and must have {self.least:,} to {self.most:,}")
        return tuple(self.kind.read(item, f"{place}[{i}]") for i, item in enumerate(value))


@dataclass(frozen=True)
class Fields:
    """An object with all the fields of `needed`, and whichever of `free`; no others."""

    needed: Mapping[str, Kind]
    free: Mapping[str, Kind] = field(default_factory=dict)

    def read(self, value: Any, place: str) -> dict[str, Any]:
        where = place or "the file"
        if not isinstance(value, dict):
            raise misfit(where, value, "an object with fields")
        known = {**self.needed, **self.free}
        for key in value:
            if key not in known:
                raise Misfit(f"{where} has a field {short_repr(key)}, which is not known")
        for key in self.needed:
            if key not in value:
                raise Misfit(f"{where} has no field {short_repr(key)}")
        prefix = f"{place}." if place else ""
        return {key: known[key].read(item, f"{prefix}{key}") for key, item in value.items()}


@dataclass(frozen=True)
class Some:
    """An object with all the fields of `needed`; what else is in it is not looked at."""

    needed: Mapping[str, Kind]
    free: Mapping[str, Kind] = field(default_factory=dict)

    def read(self, value: Any, place: str) -> dict[str, Any]:
        read = {**self.needed, **self.free}
        if isinstance(value, dict):
            value = {key: item for key, item in value.items() if key in read}
        return Fields(self.needed, self.free).read(value, place)


@dataclass(frozen=True)
class Maybe:
    """A value of a kind, or null."""

    kind: Kind

    def read(self, value: Any, place: str) -> Any:
        return None if value is None else self.kind.read(value, place)


@dataclass(frozen=True)
class Anything:
    """A value of a type that is looked at elsewhere."""

    type: type
    wanted: str

    def read(self, value: Any, place: str) -> Any:
        if not isinstance(value, self.type):
            raise misfit(place, value, self.wanted)
        return value
