"""Values for the JSON of pages: text without invisible characters, and finite numbers."""

import math
import re
from typing import Any

_INVISIBLE = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff\ufffe\uffff]")


def visible_text(text: object) -> str:
    """`str(text)` in which control characters, lone surrogates and direction marks are replaced by U+FFFD."""
    return _INVISIBLE.sub("\ufffd", str(text))


def json_number(value: Any, digits: int = 9) -> float | None:
    """A number rounded to `digits` significant digits; None for None, NaN and infinity, which JSON lacks."""
    return None if value is None or not math.isfinite(value) else float(f"{float(value):.{digits}g}")
