"""The small parts under the moves: edits, index polynomials, loops."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from astra_tui.cuda_source.functions import Function, functions_of
from astra_tui.cuda_source.indices import GLOBAL_THREAD, THREAD, IndexReader, Polynomial
from astra_tui.cuda_source.polynomial import constant
from astra_tui.cuda_source.syntax import field as child
from astra_tui.cuda_source.syntax import of_type, parse
from astra_tui.playbook.edits import Edit, OverlappingEdits, apply
from astra_tui.playbook.loops import halves, loops_of


def function(body: str, parameters: str = "float* x, int n, int d") -> Function:
    text = f"__global__ void f({parameters}) {{\n{body}\n}}\n"
    root = parse(text)
    assert not root.has_error
    return next(functions_of(root))


def polynomial(expression: str, before: str = "") -> Polynomial:
    of = function(f"{before} result = {expression};")
    assignment = list(of_type(of.body, "assignment_expression"))[-1]
    return IndexReader(of).read(child(assignment, "right"))


@given(st.binary(max_size=40), st.data())
def test_edits_change_only_what_they_name(source: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(source)), min_size=2, max_size=8)))
    spans = list(zip(cuts[::2], cuts[1::2], strict=False))
    edits = [Edit(a, b, f"<{n}>") for n, (a, b) in enumerate(spans)]
    expected, position = b"", 0
    for edit in edits:
        expected += source[position : edit.start] + edit.text.encode()
        position = edit.end
    assert apply(source, edits) == expected + source[position:]


def test_overlapping_edits_are_refused() -> None:
    with pytest.raises(OverlappingEdits):
        apply(b"abcdef", [Edit(0, 3, "x"), Edit(2, 4, "y")])


_ATOMS = st.sampled_from(["a", "b", "n", "threadIdx.x"])
_EXPRESSIONS = st.recursive(
    st.one_of(_ATOMS, st.integers(0, 9).map(str)),
    lambda inner: st.tuples(inner, st.sampled_from("+-*"), inner, st.booleans()).map(
        lambda t: f"({''.join(t[:3])})" if t[3] else "".join(t[:3])
    ),
    max_leaves=8,
)


@example("(a*(b*n))+n*2", (1, 2, 3, 4))
@given(_EXPRESSIONS, st.tuples(*[st.integers(-5, 5)] * 4))
def test_polynomials_have_the_value_of_their_expression(
    expression: str, values: tuple[int, ...]
) -> None:
    names = dict(zip(["a", "b", "n", "threadIdx.x"], values, strict=True))
    value = 0
    for monomial, coefficient in polynomial(expression).terms.items():
        product = coefficient
        for each in monomial:
            product *= names[each]
        value += product
    plain = expression.replace("threadIdx.x", "t")
    assert value == eval(plain, {"a": values[0], "b": values[1], "n": values[2], "t": values[3]})


def test_locals_that_stay_are_followed_and_casts_ignored() -> None:
    before = "const int64_t t = threadIdx.x; int64_t b = (int64_t)blockIdx.x * blockDim.x;"
    assert polynomial("b + t", before) == GLOBAL_THREAD
    assert polynomial("t", "int t = threadIdx.x; t += 1;") != THREAD
    assert polynomial("n << 2") == polynomial("4 * n")
    assert polynomial("3 - 3") == constant(0)


LOOPS = [
    "for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = 0;",
    "for (int i = threadIdx.x; n > i; i = i + blockDim.x) { x[i] = 0; }",
    "int i = threadIdx.x; while (i < n) { x[i] = 0; i = blockDim.x + i; }",
]


@pytest.mark.parametrize("text", LOOPS)
def test_spellings_of_one_loop(text: str) -> None:
    of = function(text)
    (loop,) = loops_of(of)
    reader = IndexReader(of)
    assert loop.counts_up()
    assert loop.start_form(reader) == THREAD
    assert str(loop.step_form(reader)) == "blockDim.x"
    assert len(loop.body) == 1


@pytest.mark.parametrize(
    "text",
    [
        "for (int i = 0; i < n; i++) { i += 2; }",
        "int i = 0; while (i < n) { if (x[i] > 0) continue; i++; }",
        "int i = 0; while (i < n) { i++; } x[i] = 0;",
        "for (;;) { }",
    ],
)
def test_what_is_no_counted_loop(text: str) -> None:
    assert not list(loops_of(function(text)))


@pytest.mark.parametrize("step", ["h /= 2", "h >>= 1", "h = h / 2", "h = h >> 1"])
@pytest.mark.parametrize("test", ["h > 0", "0 < h", "h >= 1", "h != 0"])
def test_halving_loops(step: str, test: str) -> None:
    (loop,) = loops_of(function(f"for (int h = blockDim.x / 2; {test}; {step}) {{ }}"))
    assert halves(loop)
