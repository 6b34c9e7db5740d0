"""Strict parsing of JSON."""

import json

import pytest

from molattn.data.schema import ValidationError, parse_json


def test_a_duplicate_key_among_many_is_named() -> None:
    pairs = [f'"k{i}": {i}' for i in range(300_000)]
    assert parse_json(f"{{{', '.join(pairs)}}}".encode()) == json.loads(f"{{{', '.join(pairs)}}}")
    with pytest.raises(ValidationError, match="'k299999' is a duplicate"):
        parse_json(f'{{{", ".join(pairs)}, "k299999": 0}}'.encode())
