"""Untrusted JSON: strict parsing, validation of values against a schema, and a checksum that detects changes.

A schema is made of `Integer`, `Number`, `Boolean`, `String`, `OneOf`, `ListOf`, `Record`, `PartialRecord`, `Nullable`
and `InstanceOf`. The method `validate` of each raises `ValidationError` with the path of the value, the value
and what is expected.
"""

import hashlib
import json
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from molattn.errors import short_repr

MAX_FLOAT = sys.float_info.max
"""The largest finite number."""


class ValidationError(ValueError):
    """A value that does not match its schema; the message gives the reason."""


@runtime_checkable
class Schema(Protocol):
    """The interface of a schema."""

    def validate(self, value: Any, path: str) -> Any:
        """The value, converted to the Python type of the schema, such as a tuple for a list.

        Args:
            value: parsed JSON.
            path: where the value is in the file, such as "model.edges[1]", for the error.

        Raises:
            ValidationError: the value does not match the schema.
        """
        ...


def parse_json(data: bytes) -> Any:
    """Parse strict JSON in UTF-8: extensions such as NaN, and duplicate keys in an object, are errors.

    Raises:
        ValueError: the data is not such JSON.
    """
    try:
        return json.loads(data.decode(), object_pairs_hook=_unique_keys, parse_constant=_reject_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object with these keys and values. Raises ValidationError for a duplicate key."""
    result = dict(pairs)
    if len(result) < len(pairs):
        seen: set[str] = set()
        duplicate = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise ValidationError(f"the key {short_repr(duplicate)} is a duplicate")
    return result


def _reject_constant(name: str) -> None:
    """Raise ValidationError for NaN, Infinity or -Infinity."""
    raise ValidationError(f"{name} is not a number in JSON")


def mismatch(path: str, value: object, expected: str) -> ValidationError:
    """The error for a value at `path` that does not match `expected`."""
    # A long value is truncated before it is formatted, which could take very long.
    short = value[:100] if isinstance(value, str | list | tuple) else value
    if isinstance(value, dict):
        short = dict(list(value.items())[:5])
    elif isinstance(value, int) and abs(value) >= 10**100:
        return ValidationError(f"{path} is a number of over 100 digits, and must be {expected}")
    try:
        text = short_repr(short)
    except RecursionError:
        text = "nested deeply"
    return ValidationError(f"{path} is {text}, and must be {expected}")


@dataclass(frozen=True)
class Integer:
    """An integer from `minimum` to `maximum`; true and 1.0 are none."""

    minimum: int
    maximum: int

    @property
    def expected(self) -> str:
        return f"a whole number from {self.minimum:,} to {self.maximum:,}"

    def validate(self, value: Any, path: str) -> int:
        if type(value) is not int or not self.minimum <= value <= self.maximum:
            raise mismatch(path, value, self.expected)
        return value


@dataclass(frozen=True)
class Number:
    """A finite number from `minimum` to `maximum`; with `exclusive`, neither of the two."""

    minimum: float = -MAX_FLOAT
    maximum: float = MAX_FLOAT
    exclusive: bool = False

    @property
    def expected(self) -> str:
        low, high = abs(self.minimum) < MAX_FLOAT, abs(self.maximum) < MAX_FLOAT
        if low and high:
            between, and_ = ("between", "and") if self.exclusive else ("from", "to")
            return f"a number {between} {self.minimum:g} {and_} {self.maximum:g}"
        if low:
            return f"a finite number {'above' if self.exclusive else 'of at least'} {self.minimum:g}"
        return "a finite number"

    def validate(self, value: Any, path: str) -> float:
        valid = type(value) in (int, float) and self.minimum <= value <= self.maximum
        if not valid or (self.exclusive and value in (self.minimum, self.maximum)):
            raise mismatch(path, value, self.expected)
        return float(value)


@dataclass(frozen=True)
class Boolean:
    """True or false."""

    expected = "true or false"

    def validate(self, value: Any, path: str) -> bool:
        if type(value) is not bool:
            raise mismatch(path, value, self.expected)
        return value


@dataclass(frozen=True)
class String:
    """A string of `min_length` to `max_length` characters that can be encoded in UTF-8."""

    max_length: int
    min_length: int = 0

    @property
    def expected(self) -> str:
        return f"a string of {self.min_length:,} to {self.max_length:,} characters that can be encoded in UTF-8"

    def validate(self, value: Any, path: str) -> str:
        if type(value) is not str or not self.min_length <= len(value) <= self.max_length:
            raise mismatch(path, value, self.expected)
        try:
            value.encode()
        except UnicodeEncodeError:
            raise mismatch(path, value, self.expected) from None
        return value


@dataclass(frozen=True)
class OneOf:
    """One of some strings."""

    choices: Collection[str]

    def validate(self, value: Any, path: str) -> str:
        if type(value) is not str or value not in self.choices:
            raise mismatch(path, value, f"one of {', '.join(self.choices)}")
        return value


@dataclass(frozen=True)
class ListOf:
    """A list of `min_length` to `max_length` values of one schema, returned as a tuple."""

    item: Schema
    max_length: int
    min_length: int = 0

    def validate(self, value: Any, path: str) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise mismatch(path, value, f"a list of {self.min_length:,} to {self.max_length:,} values")
        if not self.min_length <= len(value) <= self.max_length:
            raise ValidationError(
                f"{path} has {len(value):,} values, and must have {self.min_length:,} to {self.max_length:,}"
            )
        return tuple(self.item.validate(item, f"{path}[{i}]") for i, item in enumerate(value))


@dataclass(frozen=True)
class Record:
    """An object with all fields of `required`, any of `optional`, and no others."""

    required: Mapping[str, Schema]
    optional: Mapping[str, Schema] = field(default_factory=dict)

    def validate(self, value: Any, path: str) -> dict[str, Any]:
        where = path or "the file"
        if not isinstance(value, dict):
            raise mismatch(where, value, "an object with fields")
        schemas = {**self.required, **self.optional}
        for key in value:
            if key not in schemas:
                raise ValidationError(f"{where} has an unknown field {short_repr(key)}")
        for key in self.required:
            if key not in value:
                raise ValidationError(f"{where} has no field {short_repr(key)}")
        prefix = f"{path}." if path else ""
        return {key: schemas[key].validate(item, f"{prefix}{key}") for key, item in value.items()}


class PartialRecord(Record):
    """An object with all fields of `required` and any of `optional`; other fields are ignored."""

    def validate(self, value: Any, path: str) -> dict[str, Any]:
        if isinstance(value, dict):
            value = {key: item for key, item in value.items() if key in self.required or key in self.optional}
        return super().validate(value, path)


@dataclass(frozen=True)
class Nullable:
    """A value of a schema, or null."""

    schema: Schema

    def validate(self, value: Any, path: str) -> Any:
        return None if value is None else self.schema.validate(value, path)


@dataclass(frozen=True)
class InstanceOf:
    """A value of a type, whose content is validated elsewhere."""

    type: type
    expected: str

    def validate(self, value: Any, path: str) -> Any:
        if not isinstance(value, self.type):
            raise mismatch(path, value, self.expected)
        return value


_ZEROS = "0" * 64
CHECKSUMS = "sha256"
"""The field that maps names of files to their checksums, including the name of the file that has the field."""


def dumps_checksummed(content: Mapping[str, Any], name: str) -> bytes:
    """Serialize `content` as JSON for the file `name`, with the checksum of the file added to the field `sha256`.

    The checksum is computed from the whole text with 64 zeros in place of the checksum.
    """
    text = json.dumps({**content, CHECKSUMS: {**content.get(CHECKSUMS, {}), name: _ZEROS}}, indent=1) + "\n"
    return text.replace(_entry(name, _ZEROS), _entry(name, hashlib.sha256(text.encode()).hexdigest())).encode()


def _entry(name: str, checksum: str) -> str:
    """The JSON of an entry; it has unescaped quotation marks, so that it cannot occur within a string."""
    return f"{json.dumps(name)}: {json.dumps(checksum)}"


def loads_checksummed(data: bytes, name: str) -> tuple[dict[str, Any], bool]:
    """The content of the file `name`, and whether its checksum is right; True if it has no checksum of itself.

    Raises:
        ValueError: the data is not strict JSON with an object of checksums in the field `sha256`.
    """
    content = parse_json(data)
    checksums = content.get(CHECKSUMS) if isinstance(content, dict) else None
    if not isinstance(checksums, dict):
        raise ValidationError(f"it has no {CHECKSUMS} with checksums")
    found = checksums.get(name)
    if found is None:
        return content, True
    if not isinstance(found, str) or len(found) != len(_ZEROS):
        return content, False
    zeroed = data.replace(_entry(name, found).encode(), _entry(name, _ZEROS).encode())
    return content, hashlib.sha256(zeroed).hexdigest() == found
