"""JSON with the checksum of its own text."""

import hashlib
import json

import pytest

from molattn.data.schema import dumps_checksummed, loads_checksummed


def test_the_form_on_disk() -> None:
    data = dumps_checksummed({"x": 1, "sha256": {"b": "abc"}}, "a.json")
    content = json.loads(data)
    checksum = content["sha256"]["a.json"]
    assert content == {"x": 1, "sha256": {"b": "abc", "a.json": checksum}}
    assert data.startswith(b'{\n "x": 1,\n "sha256": {\n  "b": "abc",\n') and data.endswith(b"\n }\n}\n")
    blank = data.replace(checksum.encode(), b"0" * 64)
    assert hashlib.sha256(blank).hexdigest() == checksum
    assert loads_checksummed(data, "a.json") == (content, True)


def test_any_change_is_detected() -> None:
    data = dumps_checksummed({"x": 1}, "a.json")
    assert not loads_checksummed(data.replace(b'"x": 1', b'"x": 2'), "a.json")[1]
    assert not loads_checksummed(data.replace(b"\n", b"\r\n"), "a.json")[1]


def test_a_checksum_that_is_not_a_string_is_wrong() -> None:
    assert not loads_checksummed(b'{"sha256": {"a.json": 1}}', "a.json")[1]


def test_a_file_without_its_own_checksum_counts_as_unchanged() -> None:
    content = {"sha256": {"b": "abc"}}
    assert loads_checksummed(json.dumps(content).encode(), "a.json") == (content, True)
    assert loads_checksummed(dumps_checksummed({}, "other.json"), "a.json")[1]


@pytest.mark.parametrize("data", [b"{", b"\xff", b"{}", b"[]", b"3", b'{"sha256": 3}'])
def test_invalid_json_raises_one_of_few_errors(data: bytes) -> None:
    with pytest.raises((ValueError, KeyError, TypeError, AttributeError)):
        loads_checksummed(data, "a.json")
