"""The differences between the settings of two runs, for messages."""

import json
from typing import Any

from molattn.errors import short_repr


def differences(before: dict[str, Any], now: dict[str, Any], prefix: str = "") -> list[str]:
    """The differences between two nested dictionaries of plain values, a phrase each."""
    found = []
    for key in dict.fromkeys((*before, *now)):
        # A key from a file may be any text.
        name = f"{prefix}{key if key.isprintable() and len(key) <= 100 else short_repr(key)}"
        a, b = before.get(key), now.get(key)
        if isinstance(a, dict) and isinstance(b, dict):
            found += differences(a, b, f"{name}.")
        elif a != b:
            found.append(f"{name} was {_abbreviate(a)} and is {_abbreviate(b)} now")
    return found


def _abbreviate(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."
