"""C files built at their first use: what is said where that cannot be, and what is not loaded."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from molattn import compiled

WHY = "from molattn.graph.compiled import library, why_not; print(library() is None, why_not())"
SOURCE = Path(compiled.__file__).with_name("graph") / "edge_attention.c"

pytestmark = pytest.mark.skipif(compiled.library(SOURCE) is None, reason=f"no library: {compiled.why_not(SOURCE)}")


def said_by(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, **environment}
    )
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("environment", "why"),
    [
        ({"MOLATTN_COMPILE": "0"}, "True MOLATTN_COMPILE is 0"),
        ({"PATH": ""}, "True there is no C compiler"),
    ],
)
def test_without_it_the_reason_is_said(environment, why):
    assert said_by(WHY, **environment).startswith(why)


def test_a_compiler_that_fails_is_named(tmp_path):
    broken = tmp_path / "broken-cc"
    broken.write_text("#!/bin/sh\necho 'no such thing' >&2\nexit 1\n")
    broken.chmod(0o755)
    said = said_by(WHY, CC=str(broken), XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert said == f"True {broken} fails: no such thing"


def test_a_cache_that_others_may_write_to_is_not_loaded_from(tmp_path):
    folder = tmp_path / "molattn" / "compiled"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    assert said_by(WHY, XDG_CACHE_HOME=str(tmp_path)).startswith(f"True others may write to {folder}")


@pytest.mark.slow
def test_four_at_once_build_it_once(tmp_path, monkeypatch):
    built = []
    true = compiled._build
    monkeypatch.setattr(compiled, "_build", lambda *a: (built.append(1), true(*a))[1])
    with ThreadPoolExecutor(4) as pool:
        paths = set(pool.map(lambda _: compiled.build(SOURCE, tmp_path / "compiled", "cc"), range(4)))
    assert len(built) == len(paths) == 1
    assert [path.suffix for path in (tmp_path / "compiled").iterdir() if path.suffix != ".lock"] == [".so"]


def test_building_is_told_once(tmp_path, caplog):
    compiler = tmp_path / "cc"
    compiler.write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\ntouch "$2"\n')
    compiler.chmod(0o755)
    with caplog.at_level("INFO", logger="molattn"):
        paths = [compiled.build(SOURCE, tmp_path / "compiled", str(compiler)) for _ in range(2)]
    assert paths[0] == paths[1]
    assert caplog.messages == ["building edge_attention.c for this processor: once, some seconds"]
