"""Uses the three exported packages on a CPU, where every call goes to the fallback.

    python use_packages.py FOLDER

Nothing of astra_tui may be imported here. The last line is JSON: results by name.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

import torch

sys.path.insert(0, sys.argv[1])
silu = importlib.import_module("astra_silu_and_mul")
norm = importlib.import_module("astra_fused_add_rmsnorm")
merge = importlib.import_module("astra_merge_attn_states_lse")


def silu_original(given: torch.Tensor) -> torch.Tensor:
    d = given.shape[-1] // 2
    return torch.nn.functional.silu(given[:, :d]) * given[:, d:]


def norm_original(x: torch.Tensor, residual: torch.Tensor, weight: Any, eps: float) -> None:
    total = x.float() + residual.float()
    residual.copy_(total)
    x.copy_(total * torch.rsqrt(total.square().mean(-1, keepdim=True) + eps) * weight)


def refused(function: Any, *arguments: Any) -> str:
    try:
        function(*arguments)
    except ValueError as error:
        return str(error)
    return ""


half = torch.float16
gate_up = torch.randn(7, 64, dtype=half)
rows = [torch.randn(7, 64, dtype=half) for _ in range(2)]
weight = torch.randn(64, dtype=half)
found: dict[str, Any] = {"no fallback": refused(silu.silu_and_mul, gate_up)}

silu.set_fallback(silu_original)
norm.set_fallback(norm_original)
out = torch.empty(7, 32, dtype=half)
found["new"] = torch.equal(silu.silu_and_mul(gate_up), silu_original(gate_up))
found["into"] = silu.silu_and_mul(gate_up, out=out) is out
found["into, equal"] = torch.equal(out, silu_original(gate_up))


def around(given: torch.Tensor, x: torch.Tensor, residual: torch.Tensor) -> Any:
    x, residual = x.neg(), residual.clone()
    norm.fused_add_rmsnorm(x, residual, weight, 1e-6)
    return silu.silu_and_mul(given).neg(), x.neg(), residual


eager = around(gate_up, *rows)
for dynamic in (False, True):
    torch._dynamo.reset()
    traced = torch.compile(around, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    results = traced(gate_up, *rows)
    equal = all(map(torch.equal, results, eager))
    found[f"compiled, dynamic={dynamic}"] = equal


def differentiated(given: torch.Tensor) -> str:
    try:
        torch.compile(silu.silu_and_mul, backend="aot_eager")(given).sum().backward()
    except Exception as error:
        return str(error)
    return ""


found["compiled, derivative"] = "has no derivative" in differentiated(
    gate_up.clone().requires_grad_()
)

space = torch.ops.astra
torch.library.opcheck(space.silu_and_mul.default, (gate_up,))
torch.library.opcheck(space.silu_and_mul_out.default, (out, gate_up))
torch.library.opcheck(space.fused_add_rmsnorm.default, (*rows, weight, 1e-6))

importlib.reload(silu)
found["loaded again"] = torch.equal(silu.silu_and_mul(gate_up), silu_original(gate_up))

alias = torch.randn(4, 8, dtype=half)
silu.set_fallback(lambda given: given)
found["never an alias"] = silu.silu_and_mul(alias).data_ptr() != alias.data_ptr()

pair = torch.randn(2, 3, 1), torch.randn(2, 3)
merge.set_fallback(lambda v_a, s_a, v_b, s_b: (made := v_a + v_b, made.view(2, 3)))
v_out, s_out = merge.merge_attn_states_lse(*pair, *pair)
found["never an alias of each other"] = v_out.data_ptr() != s_out.data_ptr() and torch.equal(
    v_out.view(2, 3), s_out
)


def reason(module: Any, passed: dict[str, int], **tensors: torch.Tensor) -> str:
    return str(module.refusal(tensors, passed))


wide = torch.randn(7, 80, dtype=half)
found["reasons"] = {
    "fits": reason(norm, {}, x=rows[0], residual=rows[1], weight=weight),
    "rows apart": reason(norm, {}, x=wide[:, :64], residual=rows[1], weight=weight),
    "one row of a wide tensor": reason(
        norm, {}, x=wide[:1, :64], residual=rows[1][:1], weight=weight
    ),
    "transposed": reason(
        norm, {}, x=torch.randn(64, 7, dtype=half).t(), residual=rows[1], weight=weight
    ),
    "strided input": reason(silu, {}, out=out, input=torch.randn(7, 80, dtype=half)[:, :64]),
    "type": reason(silu, {}, out=out.double(), input=gate_up.double()),
    "mixed types": reason(silu, {}, out=out.bfloat16(), input=gate_up),
    "shape": reason(silu, {}, out=out[:, :31].contiguous(), input=gate_up),
    "rank": reason(silu, {}, out=out[0], input=gate_up),
    "overlap": reason(norm, {}, x=rows[0], residual=rows[0], weight=weight),
    "contract": reason(
        merge, {},
        v_out=torch.empty(2, 3, 12, dtype=half), s_out=torch.empty(2, 3),
        v_a=torch.empty(2, 3, 12, dtype=half), s_a=torch.empty(2, 3),
        v_b=torch.empty(2, 3, 12, dtype=half), s_b=torch.empty(2, 3),
    ),
    "empty": reason(silu, {}, out=out[:0], input=gate_up[:0]),
}  # fmt: skip
found["astra_tui"] = sorted(n for n in sys.modules if n.partition(".")[0] == "astra_tui")
print(json.dumps(found))
