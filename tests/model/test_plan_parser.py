"""The launch plan's grammar: what each construct means, and every error with its place."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.model.errors import Place
from astra_tui.model.launch import (
    Branch,
    Dispatch,
    Launch,
    LaunchPlan,
    Let,
    PlanError,
    Refuse,
    Tune,
    Workspace,
    find_plan,
    parse_plan,
    resolve,
    validate_plan,
)
from astra_tui.model.launch.expression import Binary, Compare, Integer, Name
from astra_tui.model.launch.expression_parser import MAX_DEPTH, MAX_OPERATORS
from astra_tui.model.launch.parser import MAX_STEPS
from astra_tui.model.launch.plan import Verbatim
from astra_tui.model.launch.tokens import MAX_TEXT, MAX_TOKENS

from .helpers import PROPERTY, SCOPE, THOROUGH, bindings, marked, parse_expression

KERNELS = Path(__file__).parents[2] / "kernels"

K = Launch("k", (), (Name("n"),), (Integer(32),), (Name("x"),))
K_TEXT = "k grid=n block=32 args=x"


def error_of(text: str) -> PlanError:
    with pytest.raises(PlanError) as caught:
        parse_plan(text)
    return caught.value


def one_launch(text: str) -> Launch:
    plan = parse_plan(text)
    assert plan.declarations == ()
    (launch,) = plan.steps
    assert isinstance(launch, Launch)
    return launch


def one_dispatch(text: str) -> Dispatch:
    (dispatch,) = parse_plan(text).steps
    assert isinstance(dispatch, Dispatch)
    return dispatch


# -- launches --------------------------------------------------------------------------------------


def test_a_launch_has_kernel_grid_block_and_arguments() -> None:
    assert one_launch(K_TEXT) == K


def test_lists_stand_in_parentheses() -> None:
    launch = one_launch("k grid=(n, m, 2) block=(32, 4) args=(x, n,)")
    assert launch.grid == (Name("n"), Name("m"), Integer(2))
    assert launch.block == (Integer(32), Integer(4))
    assert launch.args == (Name("x"), Name("n"))


def test_a_kernel_may_have_no_arguments() -> None:
    assert one_launch("k grid=1 block=1 args=()").args == ()


def test_fields_come_in_any_order() -> None:
    assert parse_plan("k args=x block=32 grid=n") == parse_plan(K_TEXT)


def test_a_launch_may_go_on_over_several_lines() -> None:
    text = "k\n  grid=n\n\n      # half a warp would do\n  block=32\nargs=(\n  x\n)\n"
    assert one_launch(text) == K


def test_a_dependent_launch_is_a_condition() -> None:
    assert one_launch(f"{K_TEXT} pdl=n > 4").pdl == parse_expression("n > 4")
    assert one_launch(f"{K_TEXT} pdl=true").pdl == Name("true")
    assert one_launch(K_TEXT).pdl is None


def test_shared_memory_is_one_expression() -> None:
    assert one_launch(f"{K_TEXT} shared=n * 4").shared_bytes == parse_expression("n * 4")
    assert one_launch(f"{K_TEXT} shared=(n * 4)").shared_bytes == parse_expression("n * 4")
    assert one_launch(K_TEXT).shared_bytes is None


@pytest.mark.parametrize(
    "text",
    ["(n + 1) * 2", "(n + 1) * 2 // m", "(n) if m == 1 else 2", "(n if m == 1 else 2)", "((n))"],
)
def test_a_value_may_begin_with_a_parenthesis(text: str) -> None:
    launch = one_launch(f"k grid={text} block=32 args=(x)")
    assert launch.grid == (parse_expression(text),)


def test_several_launches_run_in_order() -> None:
    plan = parse_plan(f"{K_TEXT}\n\n{K_TEXT} shared=4\n")
    assert [launch.shared_bytes for launch in plan.launches()] == [None, Integer(4)]


def test_a_kernel_may_lie_in_a_namespace() -> None:
    assert one_launch("a::b::k grid=n block=32 args=x").kernel == "a::b::k"


def test_template_arguments_are_expressions() -> None:
    launch = one_launch("k<T, 16 // sizeof(T), -1, min(n, m) + 1> grid=n block=32 args=x")
    assert launch.template_args == (
        Name("T"),
        parse_expression("16 // sizeof(T)"),
        parse_expression("-1"),
        parse_expression("min(n, m) + 1"),
    )


def test_a_comparison_among_template_arguments_stands_in_parentheses() -> None:
    launch = one_launch("k<(n > 4), not (m == 1), (1 if n > 4 else 2)> grid=n block=32 args=x")
    assert launch.template_args == (
        parse_expression("n > 4"),
        parse_expression("not m == 1"),
        parse_expression("1 if n > 4 else 2"),
    )


def test_a_quoted_template_argument_is_taken_as_it_is() -> None:
    launch = one_launch('k<"Traits<T, 4>", 2> grid=n block=32 args=x')
    assert launch.template_args == (Verbatim("Traits<T, 4>"), Integer(2))


def test_empty_template_brackets_are_none() -> None:
    assert one_launch("k<> grid=n block=32 args=x") == K


def test_comments_end_with_the_line() -> None:
    assert one_launch(f"# first\n{K_TEXT} # (\n# last") == K


def test_windows_line_ends_are_read() -> None:
    assert one_launch("k grid=n\r\n  block=32\r\n  args=x\r\n") == K


# -- declarations ----------------------------------------------------------------------------------


def test_declarations_come_before_the_launches() -> None:
    plan = parse_plan(
        "workspace partial: float32[n, m + 1]\n"
        "tune threads = 128 in 64, 128, 0x100\n"
        "tune shift in -1, 1\n"
        "let rows = ceil_div(n, threads)\n" + K_TEXT
    )
    workspace = Workspace("partial", "float32", (Name("n"), parse_expression("m + 1")))
    threads = Tune("threads", 128, (64, 128, 256))
    shift = Tune("shift", -1, (-1, 1))
    rows = Let("rows", parse_expression("ceil_div(n, threads)"))
    assert plan.declarations == (workspace, threads, shift, rows)
    assert plan.workspaces == (workspace,)
    assert plan.tunes == (threads, shift)


def test_a_workspace_may_go_on_over_several_lines() -> None:
    (workspace,) = parse_plan(f"workspace w: T[\n  n,\n  m\n]\n{K_TEXT}").workspaces
    assert workspace.shape == (Name("n"), Name("m"))


# -- when, otherwise, refuse -----------------------------------------------------------------------


def test_when_and_otherwise_choose_between_launches() -> None:
    dispatch = one_dispatch(
        f"when n > 4:\n  {K_TEXT}\nwhen m == 1:\n  {K_TEXT}\notherwise:\n  {K_TEXT}"
    )
    assert dispatch == Dispatch(
        (
            Branch(Compare(Name("n"), ((">", Integer(4)),)), (K,)),
            Branch(Compare(Name("m"), (("==", Integer(1)),)), (K,)),
            Branch(None, (K,)),
        )
    )


def test_a_branch_may_stand_on_one_line() -> None:
    dispatch = one_dispatch(f"when n > 4: {K_TEXT}\notherwise: {K_TEXT}")
    assert [branch.body for branch in dispatch.branches] == [(K,), (K,)]


def test_a_branch_may_have_several_launches() -> None:
    (branch,) = one_dispatch(f"when n > 4:\n  {K_TEXT}\n\n    # then\n  {K_TEXT}\n").branches
    assert branch.body == (K, K)


def test_what_is_indented_no_further_than_when_follows_the_branches() -> None:
    plan = parse_plan(f"  when n > 4:\n    {K_TEXT}\n  {K_TEXT}")
    assert [type(step) for step in plan.steps] == [Dispatch, Launch]


def test_otherwise_ends_its_branches() -> None:
    text = f"when n > 4:\n  {K_TEXT}\notherwise:\n  {K_TEXT}\n"
    plan = parse_plan(text + text)
    assert [type(step) for step in plan.steps] == [Dispatch, Dispatch]


@pytest.mark.parametrize(
    "condition",
    [
        "n > 4\n    and m == 1",
        "n > 4 and\nm == 1",
        "\n  n > 4 and m == 1\n  ",
        "(n > 4\n) and m == 1",
    ],
)
def test_a_condition_may_go_on_over_several_lines(condition: str) -> None:
    dispatch = one_dispatch(f"when {condition}:\n  {K_TEXT}\notherwise:\n  {K_TEXT}")
    condition_read = dispatch.branches[0].condition
    assert isinstance(condition_read, Binary)
    assert condition_read == parse_expression("n > 4 and m == 1")
    assert len(dispatch.branches) == 2


def test_a_condition_over_several_lines_may_name_what_is_also_a_field() -> None:
    (branch,) = one_dispatch(f"when grid > 4\n  and args > 2:\n  {K_TEXT}").branches
    assert branch.condition == parse_expression("grid > 4 and args > 2")


def test_refuse_gives_a_reason() -> None:
    dispatch = one_dispatch(f'when n > 4: refuse "n is large"\notherwise: {K_TEXT}')
    assert dispatch.branches[0].body == (Refuse("n is large"),)
    assert parse_plan('refuse "not yet"').steps == (Refuse("not yet"),)


def test_launches_of_a_plan_include_those_of_its_branches() -> None:
    plan = parse_plan(f'{K_TEXT}\nwhen n > 4:\n  {K_TEXT}\notherwise:\n  refuse "no"\n{K_TEXT}')
    assert list(plan.launches()) == [K, K, K]


# -- places ----------------------------------------------------------------------------------------


def test_every_part_of_a_plan_knows_its_line_and_column() -> None:
    text = f'let a = 1\ntune b in 2\nworkspace c: T[n]\n{K_TEXT}\nwhen n > 4:\n  refuse "no"\n'
    plan = parse_plan(text, Place(10, 5))
    assert plan.place == Place(10, 5)
    assert [d.place for d in plan.declarations] == [Place(10, 5), Place(11, 1), Place(12, 1)]
    launch, dispatch = plan.steps
    assert launch.place == Place(13, 1)
    assert isinstance(dispatch, Dispatch)
    assert dispatch.branches[0].place == Place(14, 1)
    assert dispatch.branches[0].body[0].place == Place(15, 3)


def test_errors_count_from_the_place_where_the_plan_begins() -> None:
    with pytest.raises(PlanError) as caught:
        parse_plan("\n  k grid=$", Place(7, 20), "kernel.cu")
    assert caught.value.describe() == "kernel.cu:8:10: unexpected '$'"
    with pytest.raises(PlanError) as caught:
        parse_plan(" $", Place(7, 20), "kernel.cu")
    assert caught.value.place == Place(7, 21)


# -- errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("  # nothing\n▶", "launches nothing", "write: my_kernel<T> grid="),
        ("let a = 1\n▶", "launches nothing", "write: my_kernel<T> grid="),
        # launches
        ("▶k grid=1 args=()", "the launch of k has no block=", ""),
        ("▶k block=1 args=()", "the launch of k has no grid=", ""),
        ("▶k grid=1 block=1", "the launch of k has no args=", ""),
        ("k ▶gird=1 block=1 args=()", "unknown field 'gird='", "did you mean 'grid'?"),
        (
            "k grid=1 ▶zzz=1",
            "unknown field 'zzz='",
            "valid names: args, block, cluster, grid, pdl, shared",
        ),
        ("k grid=1\n  ▶grid=2", "grid= stands twice in the launch of k", ""),
        ("k ▶grid=()", "grid= takes 1 to 3 values, not 0", ""),
        ("k ▶grid=(1, 2, 3, 4)", "grid= takes 1 to 3 values, not 4", ""),
        ("k grid=1 ▶block=(1, 2, 3, 4)", "block= takes 1 to 3 values, not 4", ""),
        ("k grid=1 ▶shared=(1, 2)", "shared= takes 1 value, not 2", ""),
        ("k grid=1 ▶shared=()", "shared= takes 1 value, not 0", ""),
        ("k ▶grid 1", "expected the end of the line, found 'grid'", "fields are grid=, block="),
        ("k grid=1 ▶2", "expected the end of the line, found '2'", ""),
        ("k grid=1▶, block=1", "found ','", "several values stand in parentheses"),
        ("k grid=n▶, m block=1", "found ','", "several values stand in parentheses"),
        ("k grid=(n, m) ▶* 2", "expected the end of the line, found '*'", ""),
        ("k grid=▶", "expected a value, found the end of the line", ""),
        ("k grid=(1, 2 ▶block=1", "expected ')' to close the '(', found 'block'", ""),
        ("▶5 grid=1", "expected the name of a kernel, found '5'", ""),
        ("▶@k grid=1", "unexpected '@'", ""),
        ("a:: ▶= 1", "expected the name of a kernel, found '='", ""),
        ("a::▶5 grid=1", "expected the name of a kernel, found '5'", ""),
        # template arguments
        ("k<n > ▶1> grid=1", "expected the end of the line, found '1'", ""),
        ("k<n ▶>= 1> grid=1", "expected '>' to close", "a comparison stands in parentheses"),
        ("k<n ▶== 1> grid=1", "expected '>' to close", "a comparison stands in parentheses"),
        ("k<Pack▶<T>> grid=1", "expected '>' to close", "other C++ text in quotes"),
        ("k<T ▶grid=1", "expected '>' to close the template arguments, found 'grid'", "in quotes"),
        ("k<▶, T> grid=1", "expected a value, found ','", ""),
        # refused fields
        ("k grid=1 ▶cooperative=1", "cooperative= is refused", "use several launches"),
        ("k grid=1 ▶stream=0", "stream= is refused", "the harness chooses"),
        ("k grid=1 ▶smem=4", "smem= is refused", "write shared=BYTES"),
        # declarations
        ("let ▶5 = 1", "expected a name after 'let', found '5'", ""),
        ("let▶", "expected a name after 'let', found the end of the line", ""),
        ("let a ▶1", "expected '=' after the name, found '1'", ""),
        ("let a = 1 ▶2", "expected the end of the line, found '2'", ""),
        ("let ▶min = 1", "'min' has a meaning of its own", ""),
        ("let ▶T = 1", "'T' has a meaning of its own", ""),
        ("let ▶float16 = 1", "'float16' has a meaning of its own", ""),
        ("let ▶sm_count = 1", "'sm_count' has a meaning of its own", ""),
        ("let ▶class = 1", "'class' has a meaning of its own", ""),
        ("tune ▶otherwise = 1", "'otherwise' has a meaning of its own", ""),
        ("workspace w ▶T[n]", "expected ':' after the workspace's name, found 'T'", ""),
        ("workspace w: ▶float31[n]", "found 'float31'", "did you mean 'float32'?"),
        ("workspace w:▶", "expected a type, found the end of the line", "valid names: T, bfl"),
        ("workspace w: T ▶(n)", "expected '[' before the workspace's sizes, found '('", ""),
        ("workspace w: T[▶]", "expected a value, found ']'", ""),
        ("workspace w: T[n ▶m]", "expected ']' after the workspace's sizes, found 'm'", ""),
        ("tune a = ▶n in 1, 2", "expected a whole number, found 'n'", ""),
        ("tune a = 1 ▶of 1, 2", "expected 'in' before the values to try, found 'of'", ""),
        ("tune a in 1,▶", "expected a whole number, found the end of the line", ""),
        ("tune a in -▶-1", "expected a whole number, found '-'", ""),
        ("tune a in ▶9223372036854775808", "does not fit in 64 bits", ""),
        ("▶tune a = 3 in 1, 2", "a = 3 is not among the values to try", ""),
        ("▶tune a in 1, 2, 0x1", "the values to try for a repeat", ""),
        (f"{K_TEXT}\n▶let a = 1", "declarations come before the first launch", ""),
        (f"{K_TEXT}\n▶tune a in 1", "declarations come before the first launch", ""),
        ("when n > 1:\n  ▶let a = 1", "declarations come before the first launch", ""),
        # structures
        ("k grid=1 block=1 args=({x ▶y})", "expected '}' to close the '{', found 'y'", ""),
        ("k grid=1 block=1 args=(alignas(▶3) {x})", "a power of two up to 128", ""),
        ("k grid=1 block=1 args=(alignas(8) ▶x)", "expected '{' here, found 'x'", ""),
        ("k grid=1 block=1 args=({x} ▶+ 1)", "expected ')' to close the '(', found '+'", ""),
        ("k grid=▶{x} block=1 args=()", "expected a value, found '{'", ""),
        # branches
        ("▶otherwise: " + K_TEXT, "'otherwise' needs a 'when' before it", ""),
        (f"when n > 1▶\n  {K_TEXT}", "expected ':' after 'when', found the end of the line", ""),
        (f"when n > 1 ▶{K_TEXT}", "expected ':' after 'when', found 'k'", ""),
        (f"when▶:\n  {K_TEXT}", "expected a value, found ':'", ""),
        (f"when n > 1: {K_TEXT}\notherwise ▶n", "expected ':' after 'otherwise', found 'n'", ""),
        (f"when n > 1:\n  ▶when m > 1:\n    {K_TEXT}", "do not nest", "join the conditions"),
        (f"▶when n > 1:\n{K_TEXT}", "nothing follows 'when ...:'", "indent its launches further"),
        ("▶when n > 1:", "nothing follows 'when ...:'", "indent its launches further"),
        ("when n > 1: refuse ▶because", 'refuse "d must be even"', ""),
        ("refuse▶", 'refuse "d must be even"', ""),
        ('refuse "no" ▶1', "expected the end of the line, found '1'", ""),
        ('refuse ▶"no', "unexpected '\"'", "close the quotes"),
    ],
)
def test_errors_name_the_place_and_a_way_out(text: str, message: str, hint: str) -> None:
    text, place = marked(text)
    error = error_of(text)
    assert message in error.message
    assert error.place == place
    assert hint in error.hint
    assert bool(hint) == bool(error.hint)


# -- limits ----------------------------------------------------------------------------------------


def test_the_number_of_steps_has_a_limit() -> None:
    parse_plan(f"{K_TEXT}\n" * MAX_STEPS)
    error = error_of("let a = 1\n" * 2 + f"{K_TEXT}\n" * (MAX_STEPS - 1))
    assert error.message == f"a plan has at most {MAX_STEPS} declarations and steps"
    assert error.place == Place(MAX_STEPS + 1, 1)


def test_the_number_of_branches_has_a_limit() -> None:
    branch = f"  when n > 1: {K_TEXT}\n"
    parse_plan(branch * MAX_STEPS)
    error = error_of(branch * (MAX_STEPS + 1))
    assert error.message == f"a plan has at most {MAX_STEPS} branches"
    assert error.place == Place(MAX_STEPS + 1, 3)


def test_the_text_has_a_limit() -> None:
    text = K_TEXT + " " * (MAX_TEXT - len(K_TEXT))
    parse_plan(text)
    assert f"at most {MAX_TEXT}" in error_of(text + " ").message


def test_the_number_of_words_has_a_limit() -> None:
    assert f"more than {MAX_TOKENS} words" in error_of("- " * (MAX_TOKENS + 1)).message


def test_grid_values_share_the_limits_of_other_expressions() -> None:
    deep = "(" * MAX_DEPTH + "n" + ")" * MAX_DEPTH
    assert "nested more than" in error_of(f"k grid=({deep}) block=1 args=()").message
    chain = "(n" + " + n" * MAX_OPERATORS + ")"
    parse_plan(f"k grid={chain} block=1 args=()")
    error = error_of(f"k grid={chain} + n block=1 args=()")
    assert error.message == f"this expression has more than {MAX_OPERATORS} operators"


# -- any text --------------------------------------------------------------------------------------


def run_to_the_end(text: str) -> LaunchPlan | None:
    """Parses, validates and resolves a plan; None where one of them says what is wrong."""
    try:
        plan = parse_plan(text)
        validate_plan(plan, SCOPE)
        resolve(plan, bindings())
    except PlanError:
        return None
    return plan


@THOROUGH
@given(st.text(max_size=200))
def test_any_text_is_a_plan_or_a_plan_error(text: str) -> None:
    run_to_the_end(text)


_SOUP = (
    *("k", "n", "m", "x", "y", "eps", "count", "T", "float32", "a", "sm_count", "\n", "\n  "),
    *("when", "otherwise", ":", "refuse", '"T"', "let", "tune", "workspace", "in", "if", "else"),
    *("and", "or", "not", "min", "max", "ceil_div", "aligned", "stride", "sizeof", "#", "::"),
    *("grid=", "block=", "args=", "shared=", "cluster=", "(", ")", "[", "]", "<", ">", "<=", "=="),
    *("!=", "=", ",", "+", "-", "*", "//", "%", "0", "1", "2", "32", "0x10", "9223372036854775807"),
)


@THOROUGH
@given(st.lists(st.sampled_from(_SOUP), max_size=60).map(" ".join))
def test_any_soup_of_words_is_a_plan_or_a_plan_error(text: str) -> None:
    run_to_the_end(text)


@THOROUGH
@given(
    st.lists(st.sampled_from(_SOUP), max_size=8).map(" ".join),
    st.sampled_from(
        (
            "k grid={} block=1 args=()",
            "k grid=1 block=1 args=({})",
            "k<{}> grid=1 block=1 args=()",
            "let a = {}\nk grid=1 block=1 args=(a)",
            "workspace w: T[{}]\nk grid=1 block=1 args=(w)",
            "when {}: k grid=1 block=1 args=()",
        )
    ),
)
def test_any_words_for_a_value_are_a_plan_or_a_plan_error(words: str, around: str) -> None:
    run_to_the_end(around.format(words))


_REAL = tuple(
    find_plan(file.read_text(encoding="utf-8")).text for file in sorted(KERNELS.glob("*/*.cu"))
)


@PROPERTY
@given(st.sampled_from(_REAL), st.data())
def test_a_damaged_real_plan_is_a_plan_or_a_plan_error(text: str, data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(begin, min(len(text), begin + 12)))
    put = data.draw(st.lists(st.sampled_from(_SOUP), max_size=3).map(" ".join))
    run_to_the_end(text[:begin] + put + text[end:])


@pytest.mark.parametrize(
    "piece",
    [
        "(",
        "[",
        "-",
        "not ",
        "min(",
        "1 if n else ",
        "k<",
        "when ",
        "n + ",
        "n < ",
        "((n), ",
        "let a",
    ],
)
def test_a_thousand_of_anything_is_answered_with_a_plan_error(piece: str) -> None:
    assert run_to_the_end(f"k grid={piece * 1000}n block=1 args=()") is None
    assert run_to_the_end(piece * 1000) is None
