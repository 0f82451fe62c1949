"""Results of approximate instructions at the edge of what the PTX ISA documents, never beyond."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from astra_tui.emulator.numerics import bf16_to_f32
from astra_tui.lab.compiler import Compiler
from astra_tui.model.device import Variation
from tests.emulator.harness import run_kernel

EXACT = {
    "rcp": np.reciprocal,
    "sqrt": np.sqrt,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "ex2": np.exp2,
    "lg2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "div": lambda a: 3.0 / a,
}

F32 = """
__global__ void k(float* out, const float* in) {{
  float r;
  asm("{opcode} %0, {operands};" : "=f"(r) : "f"(in[blockIdx.x * 128 + threadIdx.x]));
  out[blockIdx.x * 128 + threadIdx.x] = r;
}}"""
PACKED = """
__global__ void k(unsigned* out, const unsigned* in) {{
  unsigned r;
  asm("{opcode} %0, %1;" : "=r"(r) : "r"(in[blockIdx.x * 128 + threadIdx.x]));
  out[blockIdx.x * 128 + threadIdx.x] = r;
}}"""


def allowed(name: str, kind: str, x: Any, exact: Any) -> Any:
    """The error that PTX ISA 9 documents, written down again from its tables."""
    size = np.abs(exact)
    if kind == "f16":
        return size * 2.0**-9.9 if name == "ex2" else np.full(x.shape, 2.0**-10.987)
    if kind == "bf16":
        return size * 2.0**-7 if name == "ex2" else np.full(x.shape, 2.0**-8)
    ulp = np.spacing(np.abs(exact).astype(np.float32)).astype(np.float64)
    match name:
        case "rcp":
            return 1.5 * ulp  # one more than the rounded result
        case "ex2" | "div":
            return 2.5 * ulp
        case "sqrt":
            return size * 2.0**-23
        case "rsqrt":
            return size * 2.0**-22.9
        case "tanh":
            return size * 2.0**-11
        case "lg2":
            return np.where((x > 0.5) & (x < 2), 2.0**-22, size * 2.0**-22)
        case _:
            near, far = np.abs(x) <= 2 * np.pi, np.abs(x) <= 100 * np.pi
            return np.where(near, 2.0**-20.5, np.where(far, 2.0**-14.7, ulp))


OPCODES = [
    "rcp.approx.ftz.f32", "rcp.approx.f32", "sqrt.approx.f32", "rsqrt.approx.ftz.f32",
    "ex2.approx.ftz.f32", "lg2.approx.f32", "sin.approx.f32", "cos.approx.ftz.f32",
    "tanh.approx.f32", "div.approx.f32", "div.full.ftz.f32", "ex2.approx.f16x2",
    "ex2.approx.ftz.bf16x2", "tanh.approx.f16x2", "tanh.approx.bf16x2",
]  # fmt: skip


@pytest.mark.parametrize("opcode", OPCODES)
def test_results_move_to_the_edge_and_not_beyond(compiler: Compiler, opcode: str) -> None:
    name, kind = opcode.split(".")[0], opcode.split(".")[-1].removesuffix("x2")
    random = np.random.default_rng(11)
    x = np.concatenate([random.normal(0, 4, 384), 2.0 ** random.uniform(-6, 3, 640)])
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e30, -1e30, 1e-42])
    x[:8] = special
    operands = "0f40400000, %1" if name == "div" else "%1"
    source = (F32 if kind == "f32" else PACKED).format(opcode=opcode, operands=operands)
    with np.errstate(over="ignore"):
        bits = encoded(x, kind)
    runs = [
        decoded(run_kernel(compiler, source, [np.zeros_like(bits), bits], grid=8, block=128,
                           read_only=(1,), variation=Variation(error_bounds=edges))["a0"], kind)
        for edges in (0, 1, 2)
    ]  # fmt: skip
    plain, values = runs[0], decoded(bits, kind)
    with np.errstate(all="ignore"):
        exact = EXACT[name](values)
        for run in runs[1:]:
            np.testing.assert_array_equal(np.isnan(run), np.isnan(plain))
            stays = ~np.isfinite(plain) | (plain == 0)
            np.testing.assert_array_equal(run[stays], plain[stays])
            normal = ~stays & (np.abs(exact) > 1e-37)
            error, bound = np.abs(run - exact)[normal], allowed(name, kind, values, exact)[normal]
            assert (error <= bound * (1 + 1e-12)).all()
            # Near the edge, or as near as the spacing of the type lets it come.
            reached = np.maximum(error, np.abs(run - plain)[normal])
            spread = (
                np.abs(exact)[normal] * {"f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7}[kind]
            )
            assert (reached + spread >= 0.99 * bound).mean() > 0.9
            assert (run > plain).any()
            assert (run < plain).any()
        assert (runs[1] != runs[2]).any()


def encoded(x: Any, kind: str) -> Any:
    if kind == "f32":
        return x.astype(np.float32)
    half = x.astype(np.float16).view(np.uint16) if kind == "f16" else None
    if half is None:
        half = (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    low = half.astype(np.uint32)
    return low | (np.roll(low, 1) << 16)


def decoded(bits: Any, kind: str) -> Any:
    if kind == "f32":
        return bits.astype(np.float64)
    half = np.concatenate([bits & 0xFFFF, bits >> 16]).astype(np.uint16)
    return np.asarray(half.view(np.float16) if kind == "f16" else bf16_to_f32(half)).astype(float)
