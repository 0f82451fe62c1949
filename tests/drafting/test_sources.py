"""What `new` reads out of small sources of many styles; every draft is loaded and compiled."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from astra_tui.cli import drafting, main
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.compiler.headers import HeaderTree
from astra_tui.model.launch import plan_of, print_expression
from astra_tui.model.launch.expression import Expression
from astra_tui.model.launch.plan import Dispatch, Launch
from astra_tui.model.task import ArgumentRole, load_task

SOURCES = Path(__file__).parent / "sources"


@dataclass(frozen=True)
class Expected:
    """A source, and what its draft has to say."""

    source: str
    launch: str
    """Grid, block and shared memory as the plan writes them."""
    tensors: dict[str, str]
    """ArgumentRole and shape of each tensor."""
    kernel: str = ""
    dtypes: str = "float32"
    scalars: tuple[str, ...] = ()
    accepts: tuple[str, ...] = ()
    points: tuple[str, ...] = field(default=())
    """Parts of open points that have to be there."""
    text: str = ""
    """A part of baseline.cu."""


TABLE = [
    Expected(
        "vector_add",
        "grid=ceil_div(numElements, 256) block=256",
        {"A": "in numElements", "B": "in numElements", "C": "out numElements"},
        points=("main() (line 11)",),
    ),
    Expected(
        "softmax_rows",
        "grid=ceil_div(B * T_ * 32, 256) block=256",
        {"probs": "out B * T_, V", "logits": "in B * T_, V"},
        points=("block_size is chosen by the caller",),
    ),
    Expected(
        "layernorm_means",
        "grid=N block=256 shared=256 * sizeof(float32)",
        {
            "out": "out N, C", "mean": "out N", "rstd": "out N", "inp": "in N, C",
            "weight": "in C", "bias": "in C",
        },
        points=('copy what the kernel needs of "common.h"', "rows = N"),
    ),
    Expected(
        "layernorm",
        "grid=B block=256",
        {
            "y": "out B, C", "mean": "out B", "rstd": "out B", "x": "in B, C", "gamma": "in C",
            "beta": "in C",
        },
        scalars=("eps",),
    ),
    Expected(
        "rope_inplace",
        "grid=num_tokens block=min(num_heads * rot_dim // 2, 512)",
        {
            "positions": "in num_tokens",
            "query": "inout num_tokens, num_heads * head_size",
            "cos_sin": "in cos_sin_rows, rot_dim",
        },
        dtypes="float16 bfloat16 float32",
        accepts=("rot_dim % 2 == 0", "rot_dim <= head_size"),
        points=("positions holds indices into cos_sin_rows", "looks like rotary embedding, neox"),
    ),
    Expected(
        "rmsnorm_dispatch",
        "grid=num_tokens block=min(ceil_div(hidden_size, 32) * 32, 1024)",
        {
            "out": "out num_tokens, hidden_size", "input": "in num_tokens, hidden_size",
            "weight": "in hidden_size",
        },
        dtypes="float16 bfloat16 float32",
        scalars=("epsilon",),
    ),
    Expected(
        "packed_add",
        "grid=ceil_div(n // (16 // sizeof(T)), 128) block=128",
        {"out": "out n", "a": "in n", "b": "in n"},
        dtypes="float16",
        accepts=("n % 8 == 0", "aligned(out, 16)", "aligned(a, 16)", "aligned(b, 16)"),
    ),
    Expected(
        "swiglu_torch",
        "grid=(ceil_div(hidden, 128), rows) block=128",
        {"out": "out rows, hidden", "gate_up": "in rows, 2 * hidden"},
        points=("PYBIND11_MODULE()",),
    ),
    Expected(
        "matmul_tiled",
        "grid=(ceil_div(N, 16), ceil_div(M, 16)) block=(16, 16)",
        {"A": "in M, K", "B": "in K, N", "C": "out M, N"},
        scalars=("alpha",),
    ),
    Expected(
        "transpose_tile",
        "grid=(ceil_div(width, 32), ceil_div(height, 32)) block=(32, 8)",
        {"odata": "out width, height", "idata": "in height, width"},
    ),
    Expected(
        "bias_relu_grid",
        "grid=(ceil_div(width, 32), ceil_div(height, 8)) block=(32, 8)",
        {"out": "out height, width", "in_": "in height, width", "bias": "in width"},
    ),
    Expected(
        "row_sum",
        "grid=rows block=256 shared=256 * sizeof(float32)",
        {"matrix": "in rows, cols", "sums": "out rows"},
    ),
    Expected(
        "embedding",
        "grid=n_tokens block=dim if dim < 1024 else 1024",
        {
            "hidden": "out n_tokens, dim", "ids": "in n_tokens", "table": "in vocab, dim",
            "positions": "in n_tokens, dim",
        },
        dtypes="float16",
        points=("ids holds indices into vocab",),
    ),
    Expected(
        "histogram",
        "grid=2 * sm_count block=256",
        {"pixels": "in n", "counts": "inout 256"},
        points=("no tensor is known to hold floating-point",),
    ),
    Expected(
        "attention_steps",
        "grid=queries block=128",
        {"scores": "in queries, keys", "row_max": "out queries", "row_sum": "out queries"},
        kernel="row_statistics",
        points=("also launches scale_and_mask, weighted_sum",),
    ),
    Expected(
        "l2_normalize",
        "grid=rows block=256",
        {"x": "in rows, d", "y": "out rows, d"},
        points=("no <<<...>>> launch", "ldx is passed as stride(x, 0)"),
    ),
    Expected(
        "leaky_relu",
        "grid=ceil_div(n, 256) block=256",
        {"out": "out n", "in_": "in n"},
        scalars=("slope",),
        points=("slope: the draft tries", "no <<<...>>> launch"),
    ),
    Expected(
        "clamp_windows",
        "grid=ceil_div(lambda_, 512) block=512",
        {"data": "inout lambda_"},
        scalars=("lo", "hi"),
    ),
    Expected(
        "parts_of_one",
        "grid=ceil_div(n, 128) block=128 shared=max(128, 64) * 8",
        {"x": "in n", "totals": "out n", "counts": "out n"},
        text='above<"true"> grid=ceil_div(n, 128) block=128 shared=max(128, 64) * 8\n'
        "       args=(x, totals, counts, n, 32, share)",
        points=(
            "grid: 'blocks_for(n, 128)' at line 39 could not be rewritten",
            "share: 'share' at line 39 could not be read; the draft makes it a dimension",
            "counts: the launch passes a part of a tensor that it passes elsewhere too",
        ),
    ),
    Expected("gelu_half", "grid=min(ceil_div(n, 256), 1024) block=256",
             {"x": "in n", "y": "out n"}, dtypes="float16"),
    Expected("scale_rows", "grid=nrows block=128",
             {"x": "inout nrows, width", "factor": "in nrows"}, dtypes="bfloat16"),
    Expected(
        "gated_torch", "grid=rows block=min(d, 1024)",
        {"out": "out rows, d", "x": "in rows, 2 * d"},
        dtypes="float16 bfloat16",
        text='gates::gate_kernel<"torch_type<T>", "typename gates::Wide<torch_type<T>>::type", '
        '"gates::square<torch_type<T>>", 4>',
    ),
    Expected(
        "paged_rows",
        "grid=min(max_threads_per_sm // 128, ceil_div(count, sm_count)) * sm_count block=128",
        {"pages": "in count, d", "cache": "out count, d", "rows": "in count, d",
         "marks": "out (d + 7) // 8"},
        dtypes="float16",
        points=("page_size: the plan writes its precomputed division", "threads"),
        accepts=(f"({' or '.join(f'page_size == {2**n}' for n in range(9))})",),
        text='write_rows<T, "Pages<T, int>"> grid',
    ),
    Expected(
        "picked_launch",
        "grid=(1 if rows - 1 == 0 else rows - 1) + 1 block=64",
        {"out": "out rows", "x": "in rows, d", "counts": "in rows"},
        accepts=("d <= 4096",),  # A branch for d <= 512, one for the rest.
        text='picks::row_sums<256, "cub::BLOCK_REDUCE_RAKING", "picks::Scaling::kMean", '
        '"picks::twice", int8, int32, "picks::Plain<int32>">',
    ),
    Expected("softmax", "grid=ceil_div(batch, 4) block=128",
             {"logits": "in batch, classes", "probs": "out batch, classes"}, dtypes="float16"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def one_compiler(compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    """All drafts are compiled in the process of the session, which starts once."""
    info = compiler.start()

    class Kept(Compiler):
        def __init__(self, upstream: HeaderTree | None = None):
            super().__init__(upstream=upstream)
            self._child, self._info = compiler._child, info

        def close(self) -> None:
            """The next draft needs it."""

    monkeypatch.setattr(drafting, "Compiler", Kept)


@pytest.mark.parametrize("expected", TABLE, ids=lambda e: e.source)
def test_a_draft_says_what_the_source_says(
    expected: Expected, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "drafted"
    arguments = ["new", str(folder), "--from", str(SOURCES / f"{expected.source}.cu"), "--json"]
    arguments += ["--kernel", expected.kernel] if expected.kernel else []

    assert main(arguments) == 0

    said = json.loads(capsys.readouterr().out)
    assert said["problems"] == []  # It loads, and NVRTC compiles it.
    for part in expected.points:
        assert any(part in point["text"] for point in said["open_points"]), part
    task = load_task(folder)
    found = {
        a.name: f"{a.role.value} {', '.join(map(print_expression, a.shape))}"
        for a in task.args.values()
        if a.role is not ArgumentRole.SCALAR
    }
    assert found == expected.tensors
    assert (
        tuple(a.name for a in task.args.values() if a.role is ArgumentRole.SCALAR)
        == expected.scalars
    )
    assert [d.value for d in task.dtypes] == expected.dtypes.split()
    assert {*expected.accepts} == {t for t in task.accepts_text if ">=" not in t}
    baseline = (folder / "baseline.cu").read_text()
    assert _geometry(baseline) == expected.launch
    assert expected.text in baseline


def _geometry(text: str) -> str:
    (step,) = plan_of(text).steps
    launch = step.branches[0].body[0] if isinstance(step, Dispatch) else step
    assert isinstance(launch, Launch)
    found = f"grid={_shown(launch.grid)} block={_shown(launch.block)}"
    if launch.shared_bytes is None:
        return found
    return f"{found} shared={print_expression(launch.shared_bytes)}"


def _shown(parts: tuple[Expression, ...]) -> str:
    texts = [print_expression(part) for part in parts]
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"
