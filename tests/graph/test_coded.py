"""Attention with a bias by code: the equation's numbers and gradients, in whatever way they are worked out."""

import pytest
import torch

from molattn.graph import BucketedGraphs, code_attention, coded, plain_code_attention
from molattn.graph.flex import flex_code_attention
from tests.assertions import assert_identical
from tests.graph.graphs import F64, random_graphs

F32 = torch.float32


def draw(*shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


def example(sizes, *, h=2, d=16, parts=3, num_codes=22, density=None, dropout=False, per_bucket=300):
    """Buckets of random graphs, their codes, what wants gradients, and what a dropout keeps."""
    graphs = BucketedGraphs.from_graph(random_graphs(sizes, density=density).to_edge_list(), per_bucket=per_bucket)
    g = torch.Generator().manual_seed(1)
    shapes = [(place.b, place.n) for place in graphs.places]
    codes = [torch.randint(num_codes, (b, n, n), generator=g).to(torch.uint8) for b, n in shapes]
    learned = draw(len(graphs.v), parts, h, d, seed=2), draw(h, num_codes, seed=3)
    kept = [(draw(b, h, n, n, seed=4) > -0.5).double() * 1.5 for b, n in shapes] if dropout else None
    return graphs, codes, learned, kept


def answers(attend, graphs, codes, learned, kept, dtype):
    """The output and the gradients of queries, keys, values and the table."""
    packed, table = (x.to(dtype).requires_grad_() for x in learned)
    output = attend(packed, graphs, codes, table, kept and [x.to(dtype) for x in kept])
    real = torch.zeros(len(output), dtype=torch.bool).index_fill(0, graphs.place, True)
    probe = draw(*output.shape, seed=9).to(dtype).masked_fill(~real[:, None, None], 0.0)
    return [output, *torch.autograd.grad((output * probe).sum(), (packed, table))]


def check(graphs, codes, learned, kept):
    ours = answers(code_attention, graphs, codes, learned, kept, F32)
    exact = answers(plain_code_attention, graphs, codes, learned, kept, F64)
    real = graphs.place
    for name, a, b in zip(("output", "packed", "table"), ours, exact, strict=True):
        a, b = (a, b) if name == "table" else (a[real], b[real])
        assert (a - b).abs().max() <= 2e-5 * max(1.0, float(b.detach().abs().max())), name


@pytest.mark.parametrize("sizes", [[4, 1, 3], [17, 20, 5, 16], [33]], ids=str)
@pytest.mark.parametrize("density", [None, 0.4])
@pytest.mark.parametrize("dropout", [False, True])
@pytest.mark.parametrize("parts", [3, 4])
def test_it_is_the_plain_form_with_its_gradients(sizes, density, dropout, parts):
    check(*example(sizes, density=density, dropout=dropout, parts=parts))


@pytest.mark.parametrize(("h", "d", "num_codes"), [(1, 1, 1), (3, 5, 8), (2, 8, 32), (2, 16, 33), (1, 40, 256)])
def test_any_number_of_heads_channels_and_codes(h, d, num_codes):
    check(*example([6, 18], h=h, d=d, num_codes=num_codes))


@pytest.mark.parametrize("sizes", [[4, 1, 3], [17, 20, 5, 16]], ids=str)
@pytest.mark.parametrize("density", [None, 0.4])
@pytest.mark.parametrize(("parts", "d"), [(3, 16), (4, 5)])
def test_flex_attention_is_told_the_same(sizes, density, parts, d):
    graphs, codes, (packed, table), _ = example(sizes, density=density, parts=parts, d=d)
    with torch.no_grad():
        ours = flex_code_attention(packed, graphs, codes, table)
        theirs = plain_code_attention(packed, graphs, codes, table)
    torch.testing.assert_close(ours[graphs.place], theirs[graphs.place])


def test_it_is_the_equation_written_out():
    graphs, codes, (packed, table), _ = example([5], h=1, d=4, num_codes=3)
    q, k, v = packed[:, :, 0].unbind(1)
    logits = q @ k.T / 2 + table[0][codes[0][0].long()]
    expected = logits.softmax(-1) @ v
    torch.testing.assert_close(plain_code_attention(packed, graphs, codes, table)[:, 0], expected)
    torch.testing.assert_close(code_attention(packed, graphs, codes, table)[:, 0], expected)
    single = code_attention(packed.float(), graphs, codes, table.float())[:, 0]
    torch.testing.assert_close(single, expected.float(), rtol=1e-5, atol=1e-6)


def test_a_table_of_one_number_changes_nothing():
    graphs, codes, (packed, table), _ = example([7, 20], num_codes=1)
    packed, table = packed.float(), table.float()
    apart = code_attention(packed, graphs, codes, table) - code_attention(packed, graphs, codes, table * 0)
    assert apart.abs().max() < 1e-6


def test_nobody_hears_what_is_not_an_edge():
    graphs, codes, learned, _ = example([9, 9], density=0.4)
    output = answers(code_attention, graphs, codes, learned, None, F32)[0]
    assert not output[graphs.place[0]].any()  # no edge reaches this one


def test_without_a_compiler_the_numbers_are_the_same(monkeypatch):
    given = example([17, 4])
    ours = answers(code_attention, *given, F32)
    monkeypatch.setattr(coded, "library", lambda: None)
    for a, b in zip(ours, answers(code_attention, *given, F32), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_it_says_the_same_every_time_in_any_number_of_threads():
    given = example([30] * 20 + [3] * 7)
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 3, 3):
            torch.set_num_threads(threads)
            results.append(answers(code_attention, *given, F32))
    finally:
        torch.set_num_threads(before)
    one, three, again = results
    for a, b in zip(three, again, strict=True):
        assert_identical(a, b)
    for a, b in zip(one[:2], three[:2], strict=True):  # the output, and gradients that no two graphs share
        assert_identical(a, b)
    torch.testing.assert_close(one[2], three[2], rtol=1e-5, atol=1e-4)


def test_a_code_that_the_table_lacks_and_codes_of_other_graphs_are_refused():
    graphs, codes, (packed, table), _ = example([4, 3], num_codes=5)
    with pytest.raises(ValueError, match="a code 4, but the table ends at 3"):
        code_attention(packed, graphs, [x.fill_(4) for x in codes], table[:, :4].contiguous())
    with pytest.raises(ValueError, match="for these buckets"):
        code_attention(packed, graphs, codes[1:], table)
