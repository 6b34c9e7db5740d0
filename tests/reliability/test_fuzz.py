"""Replay of the corpus of the fuzzer: every input is read, or raises an error of one sentence."""

from pathlib import Path

import pytest

from tests.reliability.fuzz import CORPUS, READERS, answers


@pytest.mark.parametrize("reader", sorted(READERS))
def test_the_corpus_is_read_or_refused(reader: str, tmp_path: Path) -> None:
    kept = sorted((CORPUS / reader).iterdir())
    assert len(kept) >= 20
    for path in kept:
        assert answers(reader, path.read_bytes(), tmp_path) is not None or reader == "config", path
