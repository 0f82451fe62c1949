"""Reading task.toml: what a task holds, and every error with its file, line, key and hint."""

from __future__ import annotations

import json
import math
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.model.dtypes import DType
from astra_tui.model.errors import Place, UserError
from astra_tui.model.findings import FindingKind
from astra_tui.model.launch import PlanError, print_expression
from astra_tui.model.task import (
    ArgumentRole,
    KernelTask,
    TaskError,
    Tolerance,
    ValueKind,
    Values,
    load_task,
    parse_task,
)
from astra_tui.model.task.loader import FLOOR_SIZES, MAX_FILE_BYTES, MAX_SIZE
from astra_tui.model.task.table import line_of

from .helpers import PROPERTY, THOROUGH, marked

KERNELS = Path(__file__).parents[2] / "kernels"
TEXTS = {file.parent.name: file.read_text(encoding="utf-8") for file in KERNELS.glob("*/task.toml")}
FOLDER = Path("somewhere")

SMALL = """\
name = "scale"
summary = "out = a * x"
dtypes = ["float32", "float16"]
rows = "n"

[dims.n]
sizes = [0, 1, 5]

[dims.m]

[args.x]
role = "in"
shape = ["n", "2 * m"]
limit = 100
special = ["nan"]
strided = true

[args.index]
role = "in"
dtype = "int32"
shape = ["n"]

[args.out]
role = "out"
shape = ["n", "m"]

[args.a]
role = "scalar"
dtype = "int32"
choices = [1, 2]

[contract]
accepts = ["m >= 1", "n <= 100"]

[tolerance.float32]
atol = 1e-5
rtol = 0
source = "made up"

[tolerance.float16]
atol = 1e-3
rtol = 1e-3
source = "made up"

[cost]
bytes = "n * m * sizeof(T)"
flops = "n * m"

[[workloads]]
dims = { n = 10, m = 4 }

[[workloads]]
name = "wide"
dtype = "float16"
dims = { n = 10, m = 400 }

[[cases]]
name = "zeros"
why = "nothing to scale"
dims = { n = 2, m = 3 }
values.x = { kind = "constant", low = 0.0 }

[[cases]]
name = "far apart"
why = "large next to small"
dims = { n = 2, m = 3 }
dtypes = ["float16"]

[cases.values.x]
kind = "uniform"
low = -1.0
high = 1.0
planted = ["limit"]
"""


def parsed(text: str) -> KernelTask:
    return parse_task(text, FOLDER)


def changed(old: str, new: str, text: str = SMALL) -> str:
    assert old in text
    return text.replace(old, new, 1)


def error_of(text: str) -> TaskError:
    with pytest.raises(TaskError) as caught:
        parsed(text)
    assert caught.value.file == str(FOLDER / "task.toml")
    return caught.value


# -- what a task holds -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_bundled_tasks_load(name: str) -> None:
    task = load_task(KERNELS / name)
    assert task.name == name
    assert task.text == TEXTS[name]
    assert task.folder == KERNELS / name
    assert task.workloads
    assert task.baseline_file.is_file()
    assert task.tuned_file.is_file() != (task.folder / "upstream.toml").is_file()


def test_dimensions_have_sizes_and_a_typical_one() -> None:
    dims = parsed(SMALL).dims
    assert dims["n"].sizes == (0, 1, 5)
    assert dims["n"].typical == 5
    assert dims["m"].sizes == FLOOR_SIZES
    assert dims["m"].typical == 128


RANGE = 'values = { kind = "uniform", low = 0.5, high = 2.0 }\nspecial = ["0", "-1.5", "inf"]'


def test_an_input_may_have_numbers_outside_of_its_range_that_it_names() -> None:
    x = parsed(SMALL.replace('special = ["nan"]', RANGE)).args["x"]
    tried = (-1.5, -1.0, 0.0, 0.25, 0.5, 2.0, 2.5)
    assert tuple(filter(x.allows, tried)) == (-1.5, 0.0, 0.5, 2.0)
    assert not x.allows(math.inf)


@pytest.mark.parametrize("between", ["[2, 1]", "[1, 1]", "[1]", "[nan, 2]", "[1, inf]"])
def test_ends_for_a_drawn_scalar_are_a_lower_and_a_higher_number(between: str) -> None:
    text = SMALL.replace('dtype = "int32"\nchoices = [1, 2]', 'dtype = "float32"\nchoices = [0, 3]')
    held = parsed(text.replace("[0, 3]", "[0, 3]\nbetween = [1, 2.5]")).args["a"]
    assert held.between == (1.0, 2.5)
    with pytest.raises(TaskError, match="is a lower and a higher number"):
        parsed(text.replace("[0, 3]", f"[0, 3]\nbetween = {between}"))


def test_arguments_have_roles_types_and_shapes() -> None:
    task = parsed(SMALL)
    x, index, out, a = task.args.values()
    assert [x.role, index.role, out.role, a.role] == [
        ArgumentRole.IN,
        ArgumentRole.IN,
        ArgumentRole.OUT,
        ArgumentRole.SCALAR,
    ]
    assert [x.dtype, index.dtype, out.dtype, a.dtype] == [None, DType.INT32, None, DType.INT32]
    assert [print_expression(size) for size in x.shape] == ["n", "2 * m"]
    assert (x.limit, x.special, x.strided) == (100.0, ("nan",), True)
    assert (out.limit, out.special, out.strided) == (None, (), False)
    assert a.choices == (1.0, 2.0)
    assert task.outputs == (out,)
    assert task.tensors == (x, index, out)
    assert task.scalars == (a,)


def test_values_default_by_type() -> None:
    task = parsed(changed('dtype = "int32"\nshape', 'dtype = "bool"\nshape'))
    assert task.args["index"].values == Values(ValueKind.INTEGERS, 0, 1)
    task = parsed(SMALL)
    assert task.args["index"].values == Values(ValueKind.INTEGERS, 0, 100)
    assert task.args["x"].values == Values(ValueKind.NORMAL, 0.0, 1.0)


def test_workloads_have_names_types_and_sizes() -> None:
    first, second = parsed(SMALL).workloads
    assert (first.name, first.dtype, first.dims) == ("10x4", DType.FLOAT32, {"n": 10, "m": 4})
    assert (second.name, second.dtype) == ("wide", DType.FLOAT16)


def test_cases_override_values() -> None:
    first, second = parsed(SMALL).cases
    assert first.values == {"x": Values(ValueKind.CONSTANT, 0.0)}
    assert first.dtypes == (DType.FLOAT32, DType.FLOAT16)
    assert second.values == {"x": Values(ValueKind.UNIFORM, -1.0, 1.0, ("limit",))}
    assert second.dtypes == (DType.FLOAT16,)


def test_whole_numbers_may_have_a_tolerance_without_a_relative_part() -> None:
    text = SMALL.replace("[cost]", '[tolerance.int8]\natol = 1\nsource = "ties"\n\n[cost]')
    assert parsed(text).tolerances[DType.INT8] == Tolerance(1.0, 0.0, 0.0, "ties")
    with pytest.raises(TaskError, match=r"tolerance\.int8\.rtol: unknown key"):
        parsed(text.replace('source = "ties"', 'rtol = 0.1\nsource = "ties"'))


RULINGS = """
[[accept]]
finding = "global_out_of_bounds"
function = "k"
text = "x[i + 1]"
reason = "inside the allocation"

[[accept]]
condition = "n > 4"
source = "tuned.cu"
reason = "both sides do the same"
"""


def test_engineers_rule_what_is_accepted_and_whether_bits_may_differ() -> None:
    task = parsed("deterministic = true\n" + SMALL + RULINGS)
    assert task.deterministic
    assert not parsed(SMALL).deterministic
    finding, condition = task.accepted
    assert finding.finding is FindingKind.GLOBAL_OUT_OF_BOUNDS
    assert condition.condition == "n > 4"
    assert finding.covers("mine.cu", "ns::k<float, 4>", "y = x[i + 1];")
    assert not finding.covers("mine.cu", "other", "y = x[i + 1];")
    assert not finding.covers("mine.cu", "k", "y = x[i];")
    assert condition.covers("tuned.cu", "any", "")
    assert not condition.covers("mine.cu", "any", "")
    assert finding.describe() == "global_out_of_bounds kernel k at x[i + 1]: inside the allocation"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("global_out_of_bounds", "trap", "unknown finding 'trap'"),
        ('reason = "inside the allocation"', "", "'reason' is missing"),
        ("inside the allocation", " ", "say why"),
        ('finding = "global_out_of_bounds"', "", "either a finding or a condition"),
        ('finding = "global', 'condition = "n"\nfinding = "global', "either a finding or"),
        ('function = "k"', 'kernel = "k"', "unknown key"),
    ],
)
def test_rulings_name_one_thing_and_a_reason(old: str, new: str, message: str) -> None:
    assert message in error_of(changed(old, new, SMALL + RULINGS)).message


def test_tolerances_are_numbers_with_a_default_for_the_whole() -> None:
    tolerances = parsed(SMALL).tolerances
    assert tolerances[DType.FLOAT32] == Tolerance(1e-5, 0.0, 1e-5, "made up")
    assert tolerances[DType.FLOAT16] == Tolerance(1e-3, 1e-3, 2e-3, "made up")


def test_shapes_contract_and_costs_are_computed() -> None:
    task = parsed(SMALL)
    dims = {"n": 3, "m": 5}
    assert task.shape_of(task.args["x"], dims, DType.FLOAT16) == (3, 10)
    assert task.elements(dims, DType.FLOAT16) == 30
    assert task.compulsory_bytes(dims, DType.FLOAT16) == 30
    assert task.compulsory_bytes(dims, DType.FLOAT32) == 60
    assert task.compulsory_flops(dims, DType.FLOAT32) == 15
    assert task.violated(dims, DType.FLOAT32) == ""
    assert task.violated({"n": 3, "m": 0}, DType.FLOAT32) == "m >= 1"
    assert task.violated({"n": 101, "m": 1}, DType.FLOAT32) == "n <= 100"
    assert task.violated({"n": 101, "m": 0}, DType.FLOAT32) == "m >= 1"


def test_the_scope_names_dimensions_tensors_and_scalars() -> None:
    scope = parsed(SMALL).scope
    assert scope.dims == {"n", "m"}
    assert {name: t.rank for name, t in scope.tensors.items()} == {"x": 2, "index": 1, "out": 2}
    assert scope.scalars == {"a": DType.INT32}


def test_what_is_optional_may_be_left_out() -> None:
    text = changed('rows = "n"\n', "")
    text = changed('[contract]\naccepts = ["m >= 1", "n <= 100"]\n', "", text)
    task = parsed(text[: text.index("[[cases]]")])
    assert (task.rows, task.accepts, task.cases, task.origin) == ("", (), (), "")


def test_the_hash_follows_the_text_and_the_reference(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        shutil.copytree(KERNELS / "silu_and_mul", tmp_path / name)
    with (tmp_path / "b" / "task.toml").open("a", encoding="utf-8") as file:
        file.write("# a remark\n")
    with (tmp_path / "c" / "reference.py").open("a", encoding="utf-8") as file:
        file.write("# a remark\n")
    hashes = {load_task(tmp_path / name).hash for name in ("a", "b", "c")}
    assert len(hashes) == 3
    assert load_task(tmp_path / "a").hash == load_task(KERNELS / "silu_and_mul").hash


# -- errors ----------------------------------------------------------------------------------------

_WRONG = [
    # text of SMALL, what stands there instead with `▶` at the error, message, hint
    # keys
    ('name = "scale"', "▶name = 5", "name: 5 should be text in quotes", ""),
    ('name = "scale"', "▶name = true", "name: True should be text in quotes", ""),
    ("rows =", "▶row =", "row: unknown key", "did you mean 'rows'?"),
    ("sizes =", "▶size =", "dims.n.size: unknown key", "did you mean 'sizes'?"),
    ("limit = 100", "▶limits = 100", "args.x.limits: unknown key", "did you mean 'limit'?"),
    ("[dims.m]", "[dims.m]\n▶zzz = 1", "dims.m.zzz: unknown key", "valid names: about, sizes, ty"),
    ("choices =", "▶limit = 1\nchoices =", "args.a.limit: unknown key", "valid names: about, bet"),
    ("accepts =", "▶accept =", "contract.accept: unknown key", "did you mean 'accepts'?"),
    ("flops = ", "▶flop = 1\nflops = ", "cost.flop: unknown key", "did you mean 'flops'?"),
    ("source", "▶sauce = 1\nsource", "tolerance.float32.sauce: unknown key", "'source'"),
    ('name = "wide"', '▶nam = "wide"', "workloads.nam: unknown key", "did you mean 'name'?"),
    ('name = "zeros"', 'name = "zeros"\n▶wy = 1', "cases.wy: unknown key", "did you mean 'why'?"),
    ("planted", "▶plant = 1\nplanted", "cases.values.x.plant: unknown key", "'planted'"),
    # types of values
    ("sizes = [0, 1, 5]", "▶sizes = 5", "dims.n.sizes: 5 should be a list [...]", ""),
    ("[0, 1, 5]", "▶[0, 1.5]", "dims.n.sizes: 1.5 in the list should be a whole number", ""),
    ("[0, 1, 5]", "▶[0, true]", "dims.n.sizes: True in the list should be a whole number", ""),
    ("limit = 100", '▶limit = "big"', "args.x.limit: 'big' should be a number", ""),
    ("limit = 100", "▶limit = true", "args.x.limit: True should be a number", ""),
    ("strided = true", "▶strided = 1", "args.x.strided: 1 should be true or false", ""),
    ('shape = ["n"]', "▶shape = [1]", "args.index.shape: 1 in the list should be text", ""),
    ("[dims.m]", "[dims]\n▶m = 5", "dimension 'm' should be a table", ""),
    ("{ n = 10, m = 4 }", "▶3", "workloads.dims: 3 should be a table", ""),
    ("{ n = 10, m = 4 }", "▶{ n = 10, m = 4.0 }", "workloads.dims.m: 4.0 should be a whole", ""),
    ('{ kind = "constant", low = 0.0 }', "▶3", "the values of 'x' should be a table", ""),
    ("[0, 1, 5]", f"▶[{2**63}]", "dims.n.sizes: this number does not fit in 64 bits", ""),
    ("limit = 100", f"▶limit = 1{'0' * 400}", "args.x.limit: this number does not fit in 64", ""),
    ("[0, 1, 5]", f"▶[0x1{'0' * 5000}]", "dims.n.sizes: this number does not fit in 64", ""),
    # types of elements
    ('"float32", "float16"]', '▶"float23"]', "unknown type 'float23'", "did you mean 'float32'?"),
    ('"float32", "float16"]', '▶"int32"]', "dtypes: unknown type 'int32'", "valid names: bfl"),
    ('"float32", "float16"]', '▶"float4_e2m1fn"]', "its elements share bytes", "dtype ="),
    ('special = ["nan"]', 'dtype = "float8_e4m3fn"\n▶special = ["inf"]', "no infinity", ""),
    ('special = ["nan"]', '▶special = ["nan"]\ndtype = "float4_e2m1fn"', "has no NaN", ""),
    (
        'dtype = "int32"\ncho',
        '▶dtype = "float8_e5m2"\ncho',
        "unknown dtype 'float8_e5m2'",
        "float32",
    ),
    ('["float32", "float16"]', "▶[]", "dtypes: should list at least one type, each once", ""),
    ('"float32", "float16"]', '▶"float16", "float16"]', "dtypes: should list at least one", ""),
    ('dtype = "int32"\nshape', '▶dtype = "int23"\nshape', "unknown dtype 'int23'", "'int32'?"),
    ('dtype = "int32"\ncho', '▶dtype = "T"\ncho', "args.a.dtype: unknown dtype 'T'", "valid names"),
    ('dtype = "float16"', '▶dtype = "float64"', "workloads.dtype: unknown dtype 'float64'", "flo"),
    ('dtypes = ["float16"]', '▶dtypes = ["float61"]', "no type 'float61'", "mean 'float16'?"),
    ('dtypes = ["float16"]', "▶dtypes = []", "cases.dtypes: should list at least one type", ""),
    # names
    ("[dims.m]", "[▶dims.T]", "dims.T: 'T' has a meaning of its own", "such as T_"),
    ("[dims.m]", "[▶dims.min]", "dims.min: 'min' has a meaning of its own", "such as min_"),
    ("[dims.m]", "[▶dims.float16]", "'float16' has a meaning of its own", "such as float16_"),
    ("[dims.m]", "[▶dims.sm_count]", "'sm_count' has a meaning of its own", "such as sm_count_"),
    ("[args.x]", "[▶args.lambda]", "args.lambda: 'lambda' has a meaning of its", "such as lambda_"),
    ("[args.x]", "[▶args.when]", "args.when: 'when' has a meaning of its own", "such as when_"),
    ("[dims.m]", '[▶dims."m n"]', "'m n' is no valid name", "letters, digits and underscores"),
    ("[args.x]", '[▶args."é"]', "'é' is no valid name", "letters, digits and underscores"),
    ("[args.x]", "[▶args.1x]", "'1x' is no valid name", "letters, digits and underscores"),
    ("[args.x]", "[▶args.n]", "args.n: 'n' is a dimension already", ""),
    # dimensions
    ("[0, 1, 5]", "▶[0, -1]", "dims.n.sizes: a size of -1 is out of range", "sizes go from 0 to 2"),
    ("[0, 1, 5]", f"▶[{MAX_SIZE + 1}]", "is out of range", f"sizes go from 0 to {MAX_SIZE}"),
    ("[0, 1, 5]", "▶[]", "dims.n.sizes: name at least one size to try", ""),
    ("[0, 1, 5]", "[0]\n▶typical = -1", "dims.n.typical: a size of -1 is out", "sizes go from 0"),
    # rows
    ('rows = "n"', '▶rows = "nn"', "rows: unknown dimension 'nn'", "did you mean 'n'?"),
    ('rows = "n"', '▶rows = "m"', "rows: out does not have m as its first size", ""),
    # arguments
    ('role = "in"', '▶role = "inn"', "args.x.role: unknown role 'inn'", "did you mean 'in'?"),
    ('role = "in"', '▶role = "zzz"', "unknown role 'zzz'", "valid names: in, inout, out, scalar"),
    ('shape = ["n"]', "▶shape = []", "args.index.shape: a tensor has at least one size", "scalar"),
    ('special = ["nan"]', '▶special = ["nun"]', "unknown special value 'nun'", "mean 'nan'?"),
    ('special = ["nan"]', '▶special = ["0"]', "only a uniform input of floats", "hold any number"),
    (
        'dtype = "int32"\nshape = ["n"]',
        'dtype = "int32"\nshape = ["n"]\nvalues = { kind = "integers", low = 1, high = 3 }\n'
        '▶special = ["0"]',
        "args.index.special: only a uniform input of floats",
        "hold any number",
    ),
    ("choices = [1, 2]", "choices = [1, 2]\n▶between = [1, 2]", "args.a.between: is a lower", ""),
    ("limit = 100", "▶limit = 0", "args.x.limit: limit is a positive magnitude", ""),
    ("limit = 100", "▶limit = nan", "args.x.limit: limit is a positive magnitude", ""),
    ("limit = 100", "▶limit = -inf", "args.x.limit: limit is a positive magnitude", ""),
    ('shape = ["n"]', 'shape = ["n"]\n▶limit = 5', "limit: limit is a positive magnitude", ""),
    ('shape = ["n"]', 'shape = ["n"]\n▶strided = true', "only a tensor of two or more dim", ""),
    ("choices = [1, 2]", "▶choices = []", "args.a.choices: name at least one value to pass", ""),
    ("choices = [1, 2]", "▶choices = [1.5]", "args.a.choices: 1.5 is no int32", ""),
    ("choices = [1, 2]", f"▶choices = [{2**31}]", "is no int32", ""),
    ("choices = [1, 2]", "▶choices = [inf]", "args.a.choices: inf is no int32", ""),
    ("choices = [1, 2]", "▶choices = [nan]", "args.a.choices: nan is no int32", ""),
    # expressions
    ('["n", "m"]', '["n", "▶mm"]', "args.out.shape: \"mm\": unknown name 'mm'", "mean 'm'?"),
    ('["n", "2 * m"]', '▶["n", "2 / m"]', '"2 / m" is a floating-point number', "use // for"),
    ('["n", "2 * m"]', '["n", "2 *▶"]', "expected a value, found the end of the line", ""),
    ('["n", "2 * m"]', '["n", "2 ▶m"]', "expected the end of the expression, found 'm'", ""),
    ('["n", "2 * m"]', '▶["n", "m > 1"]', '"m > 1" is true or false; it has to be a who', ""),
    ('["n", "2 * m"]', '["n", "stride(▶x, 0)"]', "unknown name 'x'", "valid names"),
    ('"m >= 1"', '"m >= ▶k"', "contract.accepts: \"m >= k\": unknown name 'k'", "valid names"),
    ('"m >= 1"', '▶"m"', 'contract.accepts: "m" is a whole number; it has to be true or fal', ""),
    ('"n <= 100"]', '\n  # both\n  "n <= ▶nn",\n]', "unknown name 'nn'", "did you mean 'n'?"),
    ('flops = "n * m"', "flops = 'n ▶? m'", "cost.flops: \"n ? m\": unexpected '?'", "else"),
    ('flops = "n * m"', "▶flops = 3", "cost.flops: 3 should be text in quotes", ""),
    # tolerances
    ("[tolerance.float16]", "[▶tolerance.float15]", "unknown type 'float15'", "'float16'?"),
    ("atol = 1e-5", "▶atol = -1", "tolerance.float32.atol: a tolerance is a finite number", ""),
    ("atol = 1e-5", "▶atol = nan", "tolerance.float32.atol: a tolerance is a finite number", ""),
    ("rtol = 0", "▶rtol = inf", "tolerance.float32.rtol: a tolerance is a finite number", ""),
    ("rtol = 0", "rtol = 0\n▶relative_l2 = -1", "relative_l2: a tolerance is a finite", ""),
    # workloads
    ("{ n = 10, m = 400 }", "▶{ n = 10 }", "workloads.dims: 'm' is missing", "write: m = 1"),
    ("{ n = 10, m = 400 }", "▶{ n = 1, m = 4, k = 1 }", "workloads.dims.k: unknown dim", "valid n"),
    ("{ n = 10, m = 400 }", "▶{ n = 1, m = -4 }", "workloads.dims.m: a size of -4 is", "from 0"),
    # cases
    ("dims = { n = 2, m = 3 }\nd", "▶dims = { n = 2, mm = 3 }\nd", "unknown dimension", "'m'?"),
    ("[cases.values.x]", "[▶cases.values.y]", "cases.values.y: no such input", "valid names: "),
    ("[cases.values.x]", "[▶cases.values.out]", "cases.values.out: no such input", "valid names"),
    ("[cases.values.x]", "[▶cases.values.a]", "cases.values.a: no such input", "valid names: "),
    # values
    ('"uniform"', '▶"unifrom"', "cases.values.x.kind: unknown kind 'unifrom'", "'uniform'?"),
    ('["limit"]', '▶["lemit"]', "unknown special value 'lemit'", "did you mean 'limit'?"),
    ("low = -1.0", "▶low = -inf", "low: -inf is no finite number", "only a constant may be inf"),
    ("high = 1.0", "▶high = nan", "high: nan is no finite number", "only a constant may be inf"),
    ('uniform"\nlow = -1.0\nhigh = 1.0', 'normal"\n▶high = -1.0', "cannot be negative", ""),
    ('uniform"\nlow = -1.0\nhigh = 1.0', 'arange"\n▶high = -1.0', "cannot be negative", ""),
    (
        'uniform"\nlow = -1.0\nhigh = 1.0',
        'integers"\n▶high = 1e30',
        "1e+30 is too large for in",
        "",
    ),
]

_AT_THE_TABLE = [
    # text of SMALL, what stands there instead, the header where the error is shown, message, hint
    (
        'role = "in"',
        "",
        "[args.x]",
        "args.x: this argument has no role",
        "in, out, inout or scalar",
    ),
    ('role = "out"', 'role = "in"', "[args.x]", "args: no argument is written", "out or inout"),
    ('shape = ["n"]', "", "[args.index]", "args.index: 'shape' is missing", "shape = [...]"),
    ("choices = [1, 2]", "", "[args.a]", "args.a: 'choices' is missing", "choices = [...]"),
    ('flops = "n * m"', "", "[cost]", "cost: 'flops' is missing", 'flops = "..."'),
    ("rtol = 0", "", "[tolerance.float32]", "float32: 'rtol' is missing", "rtol = 1.0"),
    ('source = "made up"', "", "[tolerance.float32]", "'source' is missing", 'source = "..."'),
    ('why = "large', '# "large', '[[cases]]\nname = "far', "cases: 'why' is missing", "why ="),
    ('kind = "uniform"', "", "[cases.values.x]", "x: 'kind' is missing", 'kind = "..."'),
    ("low = -1.0", "low = 2.0", "[cases.values.x]", "low = 2 is above high = 1", ""),
    ("1.0\nhigh = 1.0", "1e308\nhigh = 1e308", "[cases.values.x]", "too far apart", ""),
    (
        "[tolerance.float16]",
        "[tolerance.float64]",
        "[tolerance.float32]",
        "tolerance: no tolerance for float16, the type of out",
        "add [tolerance.float16] with atol, rtol and source",
    ),
    (
        "m = 4 }",
        "m = 0 }",
        "[[workloads]]",
        "workloads: workload 10x0 breaks the contract: m >= 1",
        "",
    ),
    (
        "n = 10, m = 400",
        "n = 101, m = 400",
        '[[workloads]]\nname = "wide"',
        "workloads: workload wide breaks the contract: n <= 100",
        "",
    ),
    (
        'name = "wide"',
        'name = "10x4"',
        '[[workloads]]\nname = "10x4"',
        "workloads: two workloads are named '10x4'",
        "give one a name",
    ),
]


@pytest.mark.parametrize(("old", "new", "message", "hint"), _WRONG)
def test_errors_name_file_line_key_and_a_way_out(
    old: str, new: str, message: str, hint: str
) -> None:
    text, place = marked(changed(old, new))
    error = error_of(text)
    assert message in error.message
    assert error.place.line == place.line
    assert error.place.column in (0, place.column)
    assert hint in error.hint
    assert bool(hint) == bool(error.hint)
    assert error.describe().startswith(f"{FOLDER / 'task.toml'}:{place.line}")


@pytest.mark.parametrize(("old", "new", "header", "message", "hint"), _AT_THE_TABLE)
def test_errors_about_a_whole_table_are_shown_at_its_header(
    old: str, new: str, header: str, message: str, hint: str
) -> None:
    text, place = marked(changed(header, f"▶{header}", changed(old, new)))
    error = error_of(text)
    assert message in error.message
    assert error.place == Place(place.line)
    assert hint in error.hint
    assert bool(hint) == bool(error.hint)


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        ('name = "scale"', "", "'name' is missing", 'write: name = "..."'),
        ('dtypes = ["float32", "float16"]', "", "'dtypes' is missing", "write: dtypes = [...]"),
        ("[cost]", "[costs]", "'cost' is missing", "write: cost = {...}"),
        (SMALL[SMALL.index("[[workloads]]") :], "", "no workload", "add [[workloads]]"),
        (SMALL[SMALL.index("[dims.n]") : SMALL.index("[args.x]")], "", "'dims' is missing", "{..."),
    ],
)
def test_errors_about_what_is_nowhere_in_the_file_have_no_line(
    old: str, new: str, message: str, hint: str
) -> None:
    error = error_of(changed(old, new))
    assert message in error.message
    assert hint in error.hint
    assert error.place == Place()


def test_empty_tables_say_what_they_need() -> None:
    dims = SMALL[SMALL.index("[dims.n]") : SMALL.index("[args.x]")]
    assert error_of(changed(dims, "[dims]\n")).message == (
        "dims: an operator has at least one dimension"
    )
    assert (
        "workloads: 3 should be a list"
        in error_of(f"workloads = 3\n{_without_workloads()}").message
    )
    error = error_of(f"\nworkloads = [3]\n{_without_workloads()}")
    assert error.message == "workloads: should be tables, written [[workloads]]"
    assert error.place == Place(2)


def _without_workloads() -> str:
    begin, end = SMALL.index("[[workloads]]"), SMALL.index("[[cases]]")
    return SMALL[:begin] + SMALL[end:]


def test_workloads_may_be_written_as_a_list() -> None:
    listed = "workloads = [\n  { dims = { n = 1, m = 2 } },\n  { dims = { n = 1, m = 3 } },\n]\n"
    task = parsed(listed + _without_workloads())
    assert [w.name for w in task.workloads] == ["1x2", "1x3"]
    error = error_of(listed.replace("m = 3", "m = 0") + _without_workloads())
    assert "workload 1x0 breaks the contract: m >= 1" in error.message
    assert error.place == Place(1)


def test_workloads_may_have_weights() -> None:
    first, second = "{ dims = { n = 1, m = 2 }, weight = 0.25 }", "{ dims = { n = 2, m = 2 } }"
    text = f"workloads = [{first}, {second}]\n{_without_workloads()}"
    assert [w.weight for w in parsed(text).workloads] == [0.25, 1.0]
    for weight in ("0.0", "-1.0", "inf", "nan"):
        assert "should be above 0" in error_of(text.replace("0.25", weight)).message


# -- what only numbers show ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"m >= 1"', '"16 ▶% (m - 4) == 0"', "workload 10x4: division by zero"),
        ('shape = ["n", "m"]', 'shape = ["n", "m ▶- 5"]', "out would have a size of -1 for n = 10"),
        ('bytes = "n', 'bytes = "9223372036854775807 ▶* n', "does not fit in 64 bits"),
        (
            'flops = "n',
            'flops = "▶ceil_div(n, m - 4) + n',
            "ceil_div(10, 0) needs a >= 0 and b > 0",
        ),
    ],
)
def test_every_workload_has_sizes_and_costs(old: str, new: str, message: str) -> None:
    text, place = marked(changed(old, new))
    error = error_of(text)
    assert message in error.message
    assert error.place == place


def test_a_shape_that_cannot_be_has_its_place_in_the_file() -> None:
    text, place = marked(changed('shape = ["n", "m"]', 'shape = ["n", "m ▶- 1"]'))
    task = parsed(text)
    with pytest.raises(PlanError) as caught:
        task.shape_of(task.args["out"], {"n": 1, "m": 0}, DType.FLOAT16)
    assert caught.value.message == "out would have a size of -1 for n = 1, m = 0"
    assert caught.value.place == place
    assert caught.value.file == str(task.file)


def test_an_expression_over_several_lines_is_refused_as_a_whole() -> None:
    error = error_of(changed('"m >= 1"', '"m >= 1\\nor n >= 1"'))
    assert "expected the end of the expression, found the end of the line" in error.message


# -- files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('name = "a"\nsummary = ▶', Place(2, 11)),
        ('name = "a"\nname = "b"\n', Place(2, 11)),
        ("name = \n", Place(1, 8)),
        ('name = "a', Place(1)),
        ("[dims\n", Place(1, 6)),
        ("a = [1,\n\n", Place(3)),
        ("\ufeffname = 'a'", Place(1, 1)),
    ],
)
def test_bad_toml_is_an_error_at_its_place(text: str, place: Place) -> None:
    error = error_of(text)
    assert error.message.startswith("not valid TOML: ")
    assert "(at" not in error.message
    assert error.place == place


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = " + "[" * 100_000, "nested too deeply"),
        ("a = 1" + "0" * 5000, "a number has too many digits"),
    ],
)
def test_toml_beyond_the_limits_of_the_parser_is_an_error(text: str, message: str) -> None:
    assert error_of(text).message == f"not valid TOML: {message}"


def test_a_value_of_any_depth_is_an_error() -> None:
    error = error_of("name" + ".a" * 5000 + " = 1")
    assert error.message == "name: this value should be text in quotes"


@pytest.mark.parametrize("missing", ["reference.py", "baseline.cu"])
def test_missing_files_are_named(tmp_path: Path, missing: str) -> None:
    folder = tmp_path / "task"
    shutil.copytree(KERNELS / "silu_and_mul", folder)
    (folder / missing).unlink()
    with pytest.raises(TaskError) as caught:
        load_task(folder)
    assert caught.value.describe() == f"{folder / 'task.toml'}: {missing} is missing in its folder"


def test_a_folder_without_a_task_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(TaskError) as caught:
        load_task(tmp_path)
    assert caught.value.message == "not a kernel task: this folder has no task.toml"
    assert caught.value.file == str(tmp_path)
    assert "astra-tui new" in caught.value.hint


def test_the_tuned_source_may_be_absent(tmp_path: Path) -> None:
    folder = tmp_path / "task"
    shutil.copytree(KERNELS / "silu_and_mul", folder)
    (folder / "tuned.cu").unlink()
    assert not load_task(folder).tuned_file.exists()


def test_a_huge_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "task.toml").write_text("#" * (MAX_FILE_BYTES + 1), encoding="utf-8")
    with pytest.raises(TaskError) as caught:
        load_task(tmp_path)
    assert caught.value.message == f"larger than {MAX_FILE_BYTES} bytes"


def test_bytes_that_are_no_utf8_are_an_error_or_a_replacement(tmp_path: Path) -> None:
    (tmp_path / "task.toml").write_bytes(b'name = "\xff"\n\xfe = 1\n')
    with pytest.raises(TaskError) as caught:
        load_task(tmp_path)
    assert caught.value.place.line == 2


# -- lines -----------------------------------------------------------------------------------------

_LINES = '''\
top = 1
text = """
top = 2
[a]
"""
# [a]
[a]
b.c = 1
"q u" = 2
'lit' = { x = 1 }
[ a . d ] # remark
list = [
  "e = 5",
]
[[t]]
[t.sub]
x = 1
[[t]]
x = 1
[[t.u]]
[[t.u]]
y = 1
[z.deep]
w = 1
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("top",), 1),
        (("text",), 2),
        (("a",), 7),
        (("a", "b", "c"), 8),
        (("a", "q u"), 9),
        (("a", "lit", "x"), 10),
        (("a", "d"), 11),
        (("a", "d", "list"), 12),
        (("a", "d", "missing"), 11),
        (("t", 0), 15),
        (("t", 0, "sub", "x"), 17),
        (("t", 0, "missing"), 15),
        (("t", 1, "x"), 19),
        (("t", 1, "u", 0), 20),
        (("t", 1, "u", 1, "y"), 22),
        (("z",), 23),
        (("z", "missing"), 23),
        (("nowhere",), 0),
        ((), 0),
    ],
)
def test_a_key_is_found_at_its_line_or_that_of_its_table(
    path: tuple[str | int, ...], line: int
) -> None:
    assert line_of(_LINES, path) == line


def test_lines_are_those_of_toml() -> None:
    assert line_of("a = '\u2028'\n# \x0c\nb = 1", ("b",)) == 3


# -- any damage ------------------------------------------------------------------------------------


def complaint(text: str) -> UserError | None:
    try:
        parsed(text)
    except UserError as error:
        return error
    return None


def loads_or_says_why(text: str) -> None:
    error = complaint(text)
    if error is not None:
        assert error.file == str(FOLDER / "task.toml")
        assert 0 <= error.place.line <= text.count("\n") + 1


FIRST = {line: name for name in sorted(TEXTS, reverse=True) for line in TEXTS[name].splitlines()}
"""The first task that has a line. Half of them stand in several; each is tried once."""

PROSE = {"#", "about", "origin", "source", "summary", "why"}
"""How lines begin of which only the key means something."""


@pytest.mark.parametrize("name", sorted(set(FIRST.values())))
def test_a_task_without_any_one_line_loads_or_says_why(name: str) -> None:
    lines = TEXTS[name].splitlines()
    for index, line in enumerate(lines):
        if FIRST[line] == name:
            loads_or_says_why("\n".join(lines[:index] + lines[index + 1 :]))


@pytest.mark.parametrize("name", sorted(set(FIRST.values())))
def test_a_task_with_any_one_word_misspelt_loads_or_says_why(name: str) -> None:
    lines = TEXTS[name].splitlines()
    for index, line in enumerate(lines):
        meant = line.partition("=")[0] if line.partition(" ")[0] in PROSE else line
        for word in re.finditer(r"[A-Za-z_]{2,}", meant) if FIRST[line] == name else ():
            misspelt = word[0][1] + word[0][0] + word[0][2:]
            changed = line[: word.start()] + misspelt + line[word.end() :]
            loads_or_says_why("\n".join([*lines[:index], changed, *lines[index + 1 :]]))


_VALUES = st.sampled_from(
    (
        *("", "0", "-1", "1.5", "nan", "inf", "-inf", "1e400", "true", '""', '"x"', "[]", "[[]]"),
        *("{}", '["n"]', "[0]", "[-1]", "1979-05-27", "9223372036854775808", "'d // 0'", '["d"]'),
        *('"tokens"', '["tokens", "d - 9999"]', '"T"', '["d % (d - 4096) == 0"]', '{ kind = "x" }'),
    )
)


@THOROUGH
@given(st.sampled_from(sorted(TEXTS)), st.data())
def test_a_task_with_another_value_loads_or_says_why(name: str, data: st.DataObject) -> None:
    lines = TEXTS[name].splitlines()
    keys = [index for index, line in enumerate(lines) if "=" in line and "#" not in line]
    index = data.draw(st.sampled_from(keys))
    lines[index] = f"{lines[index].partition('=')[0]}= {data.draw(_VALUES)}"
    loads_or_says_why("\n".join(lines))


@PROPERTY
@given(st.sampled_from(sorted(TEXTS)), st.data())
def test_a_damaged_task_loads_or_says_why(name: str, data: st.DataObject) -> None:
    text = TEXTS[name]
    begin = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(begin, min(len(text), begin + 20)))
    loads_or_says_why(text[:begin] + data.draw(st.text(max_size=5)) + text[end:])


def test_two_cases_of_one_name(tmp_path: Path) -> None:
    text = (KERNELS / "silu_and_mul" / "task.toml").read_text()
    case = text[text.index("[[cases]]") :]
    with pytest.raises(TaskError, match="two cases are named 'gates where exp overflows'"):
        parse_task(f"{text}\n{case}", tmp_path)


@pytest.mark.parametrize(
    "name",
    ["", "../../evil", "/tmp/evil", "bad name", "-x", "quant;rm", "class", "template", "None_\n",
     "Quant", "9lives", "_x", "caf\u00e9", "a" * 65],
)  # fmt: skip
def test_a_name_that_no_file_or_function_can_have_is_refused(name: str) -> None:
    text = SMALL.replace('name = "scale"', f"name = {json.dumps(name)}")
    with pytest.raises(TaskError, match="is not a valid task name") as caught:
        parse_task(text, FOLDER)
    assert (caught.value.file, caught.value.place) == (str(FOLDER / "task.toml"), Place(1))
    assert "small letter" in caught.value.hint


@pytest.mark.parametrize("name", ["a", "int8_gemm", "x" * 64, "classy"])
def test_a_name_like_an_identifier_is_taken(name: str) -> None:
    assert parse_task(SMALL.replace("scale", name, 1), FOLDER).name == name


def test_a_contract_keeps_elements_together_that_share_a_byte() -> None:
    pairs = changed('shape = ["n", "m"]', 'shape = ["n", "m"]\ndtype = "float4_e2m1fn"')
    pairs += '[tolerance.float4_e2m1fn]\natol = 0\nrtol = 0\nsource = "made up"\n'
    error = error_of(pairs)
    assert "out holds 2 elements of float4_e2m1fn in a byte" in error.message
    assert "n = 2, m = 1" not in error.message
    assert error.hint == 'have the contract exclude it, such as accepts = ["d % 2 == 0"]'
    task = parsed(changed('"m >= 1"', '"m >= 1", "m % 2 == 0"', pairs).replace("m = 3", "m = 4"))
    cut = task.cut_item({"n": 2, "m": 3}, DType.FLOAT16)
    assert cut is not None
    assert cut.name == "out"
    assert task.cut_item({"n": 2, "m": 4}, DType.FLOAT16) is None
