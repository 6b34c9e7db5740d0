"""Flags that the program reads before a command parses them."""

import pytest

from molattn.cli.main import _has_flag


@pytest.mark.parametrize(
    ("arguments", "quiet"),
    [
        (["-q"], True),
        (["predict", "--quiet"], True),
        (["-qn4"], True),
        (["-vq"], True),
        (["-n4"], False),
        (["-o", "quiet", "--verbose", "-sq"], False),
        ([], False),
    ],
)
def test_a_flag_is_found_by_its_name_and_among_other_letters(arguments: list[str], quiet: bool) -> None:
    assert _has_flag(arguments, "--quiet") == quiet
