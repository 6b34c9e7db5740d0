"""Backends: which implementation runs can be chosen, is recorded, and changes only rounding."""

import os
import subprocess
import sys

import pytest
import torch

from molattn.attention import BACKENDS, OPERATIONS, MultiHeadAttention, attend, backend, record_backends
from molattn.errors import UsageError
from molattn.kernels import dispatch
from tests.assertions import assert_close


def taken(function, *arguments, **options):
    with record_backends() as calls:
        function(*arguments, **options)
    return [call.backend for call in calls if call.operation == "attention"]


def test_the_reference_is_last_in_every_operation_and_takes_everything():
    for operation in OPERATIONS.values():
        *others, last = operation.implementations
        assert last == "reference" and operation.implementations[last].unsupported_reason is None
        assert set(others) < set(BACKENDS) and others


def test_only_allowed_backends_and_the_reference_run():
    q, k, v = torch.randn(3, 2, 5, 4)
    assert taken(attend, q, k, v) == ["fused"]
    with backend("reference"):
        assert taken(attend, q, k, v) == ["reference"]
        with backend("fused", "compiled"):
            assert taken(attend, q, k, v) == ["fused"]
        assert taken(attend, q, k, v) == ["reference"]
    with backend("compiled"):
        assert taken(attend, q, k, v) == ["reference"]
    assert taken(attend, q, k, v) == ["fused"]


def test_the_previous_backends_are_restored_after_an_exception():
    with pytest.raises(ZeroDivisionError), backend("reference"):
        _ = 1 / 0
    assert taken(attend, *torch.randn(3, 2, 5, 4)) == ["fused"]


@pytest.mark.parametrize("names", [("refrence",), ("fused", "cuda"), ()])
def test_an_unknown_backend_raises_with_the_known_ones(names):
    with pytest.raises(UsageError, match="choose among compiled, chunked, fused, reference"), backend(*names):
        pass


def test_every_backend_gives_the_same_numbers():
    torch.manual_seed(0)
    layer, x = MultiHeadAttention(12, 3).eval(), torch.randn(2, 5, 12)
    mask = torch.tensor([[True, True, False, True, False]] * 5)
    wanted = layer(x, mask=mask)
    for name in BACKENDS:
        with backend(name):
            assert_close(layer(x, mask=mask), wanted, 1e-6)


def test_the_output_is_the_sum_with_the_returned_weights():
    q, k, v = torch.randn(3, 2, 5, 4)
    with record_backends() as calls:
        output, weights = attend(q, k, v, return_weights=True)
    assert not calls
    assert_close(output, weights @ v, 1e-6)


def test_an_operation_reports_why_a_backend_does_not_run():
    operation = OPERATIONS["dropout"]
    x = torch.zeros(3, dtype=torch.float64)
    assert operation.unsupported_reason("compiled", x, 0.5) == "float64 on cpu, not float32 on the CPU"
    assert operation.unsupported_reason("reference", x, 0.5) == ""
    with backend("fused"):
        assert operation.unsupported_reason("compiled", x.float(), 0.5) == "only these backends are allowed: fused"


def in_environment(value, code="from molattn.attention import backend"):
    environment = {**os.environ, dispatch.BACKEND_VARIABLE: value}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)


def test_the_environment_variable_sets_the_default_backends():
    code = (
        "import torch; from molattn.attention import attend, backend, record_backends\n"
        "with record_backends() as calls:\n"
        "    attend(*torch.randn(3, 2, 5, 4))\n"
        "    with backend('fused'): attend(*torch.randn(3, 2, 5, 4))\n"
        "print(*(call.backend for call in calls))"
    )
    assert in_environment("reference", code).stdout.split() == ["reference", "fused"]
    assert in_environment("", code).stdout.split() == ["fused", "fused"]
    assert in_environment(" compiled , reference", code).stdout.split() == ["reference", "fused"]
    wrong = in_environment("fast")
    assert "MOLATTN_BACKEND names 'fast': choose among compiled, chunked, fused, reference" in wrong.stderr
