"""Workloads from what a service recorded: every form, weights, exposed time."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.drafting.service_traces import read_recorded, same_operator, workloads_of
from astra_tui.model.drafts import ExposedTime, ServiceWorkload
from astra_tui.model.errors import UserError
from astra_tui.model.task import KernelTask, find_task

SILU = find_task("silu_and_mul")
NORM = find_task("fused_add_rmsnorm")


def found(
    path: Path, task: KernelTask = SILU, op: str = "silu_and_mul", rows: tuple[int, ...] = ()
) -> tuple[tuple[ServiceWorkload, ...], float]:
    return workloads_of(task, read_recorded(path, task, op, rows), 12)


def write(folder: Path, content: Any) -> Path:
    path = folder / "trace.json"
    path.write_text(json.dumps(content))
    return path


def test_csv_weighs_by_time(tmp_path: Path) -> None:
    path = tmp_path / "calls.csv"
    path.write_text("tokens,d,dtype,calls,us\n16,4096,float16,10,30\n64,8192,bfloat16,1,10\n")
    (first, second), share = found(path)
    assert (first.dims, first.dtype.value, first.weight) == (
        {"tokens": 16, "d": 4096},
        "float16",
        0.75,
    )
    assert (second.calls, second.gpu_us, second.weight, share) == (1, 10.0, 0.25, 1.0)


def test_without_times_it_weighs_by_bytes(tmp_path: Path) -> None:
    record = {"op": "activation.silu_and_mul", "backend": "jit"}
    small = {**record, "tensor_args": ["torch.float16[2, 3, 8192]"]}
    large = {**record, "tensor_args": ["torch.float16[12, 8192]", "torch.float16[12, 4096]"]}
    other = {"op": "layernorm.rmsnorm", "backend": "jit", "tensor_args": ["torch.float16[6, 8192]"]}
    (first, second), _ = found(write(tmp_path, [small, large, other, small]))
    assert {(w.dims["tokens"], w.calls, w.weight) for w in (first, second)} == {
        (6, 2, 0.5),
        (12, 1, 0.5),
    }


def test_counters_of_an_adapter(tmp_path: Path) -> None:
    counts = {"hits": {"float16[3, 512] float16[3, 512] float16[512]": 4}, "fallbacks": {"off": 9}}
    ((only,), _) = found(write(tmp_path, counts), NORM)
    assert (only.dims, only.calls) == ({"tokens": 3, "d": 512}, 4)


def definition(api: str, width: int) -> dict[str, Any]:
    """As FlashInfer 0.7.2 dumps one."""
    return {
        "tags": ["status:verified", f"fi_api:{api}"],
        "axes": {"num_tokens": {"type": "var"}, "hidden_size": {"type": "const", "value": width}},
        "inputs": {"input": {"shape": ["num_tokens", "hidden_size"], "dtype": "bfloat16"}},
    }


def test_flashinfer_s_dump_needs_rows(tmp_path: Path) -> None:
    api = "flashinfer.activation.silu_and_mul"
    for width in (8192, 22016):
        (tmp_path / f"{width}.json").write_text(json.dumps(definition(api, width)))
    (tmp_path / "other.json").write_text("[1]")
    with pytest.raises(UserError, match="does not say how many rows"):
        found(tmp_path)
    workloads, _ = found(tmp_path, rows=(1, 16))
    assert {w.dtype.value for w in workloads} == {"bfloat16"}
    sizes = {(w.dims["tokens"], w.dims["d"]) for w in workloads}
    assert sizes == {(1, 4096), (16, 4096), (1, 11008), (16, 11008)}


def test_a_profiler_trace_gives_the_exposed_time(tmp_path: Path) -> None:
    """Two calls of 10 us; of the second, 4 us are behind another stream's kernel."""

    def op(name: str, number: int, rows: int) -> dict[str, Any]:
        args = {
            "External id": number, "Input type": ["c10::Half", "c10::Half", "Scalar"],
            "Input Dims": [[rows, 4096], [rows, 8192], []],
        }  # fmt: skip
        return {"cat": "cpu_op", "name": name, "ts": 0, "dur": 1, "args": args}

    def kernel(number: int, begin: float, us: float) -> dict[str, Any]:
        return {
            "cat": "kernel",
            "name": "k",
            "ts": begin,
            "dur": us,
            "args": {"External id": number},
        }

    events = [
        op("sgl_kernel::silu_and_mul", 1, 16), op("sgl_kernel::silu_and_mul", 2, 64),
        op("aten::mm", 3, 16), kernel(1, 0, 10), kernel(2, 50, 10), kernel(3, 56, 44),
    ]  # fmt: skip
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"traceEvents": events}).encode()))
    recorded = read_recorded(path, SILU, "silu_and_mul", ())
    assert recorded.exposed == ExposedTime(100.0, 20.0, 16.0)
    assert recorded.exposed.share == pytest.approx(0.16)
    assert recorded.exposed.end_to_end(2.0) == pytest.approx(1 / 0.92)
    workloads, _ = found(path)
    assert [(w.dims, w.weight) for w in workloads] == [
        ({"tokens": 16, "d": 4096}, 0.5),
        ({"tokens": 64, "d": 4096}, 0.5),
    ]


@pytest.mark.parametrize(
    ("name", "content"), [("a.json", "{}"), ("a.json", "no"), ("a.csv", "tokens\n1\n")]
)
def test_what_is_no_recording(tmp_path: Path, name: str, content: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(UserError):
        found(path)


@pytest.mark.parametrize(
    "name", ["_C::fused_add_rms_norm", "norm.fused_add_rmsnorm", "FusedAddRMSNorm"]
)
def test_names_of_an_operator(name: str) -> None:
    assert same_operator(name, "fused_add_rmsnorm")
    assert not same_operator(f"{name}_quant", "fused_add_rmsnorm")


@given(
    st.lists(
        st.tuples(st.integers(1, 300), st.integers(1, 3000), st.integers(1, 50)),
        min_size=1, max_size=20,
    ),
    st.integers(1, 5),
)  # fmt: skip
def test_weights_add_up(calls: list[tuple[int, int, int]], most: int) -> None:
    hits = {f"float16[{t}, {2 * d}]": n for t, d, n in calls}
    from astra_tui.drafting.service_traces import Recorded, SeenCalls, _tensors

    seen = tuple(SeenCalls(_tensors(text), n) for text, n in hits.items())
    workloads, share = workloads_of(SILU, Recorded("test", seen), most)
    assert len(workloads) == min(most, len(hits))
    assert sum(w.weight for w in workloads) == pytest.approx(1, abs=0.01)
    assert 0 < share <= 1
    assert list(workloads) == sorted(workloads, key=lambda w: -w.weight)
