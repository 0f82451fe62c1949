"""Uses adapters on tensors of a CPU, with a scripted driver: `python adapters.py FOLDER FRAMEWORK`.

Nothing of astra_tui may be imported here. FOLDER has the packages of both operators. The framework
is the real one, or as much of it as holds its registry. The last line is JSON.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import math
import sys
import types
from pathlib import Path
from typing import Any

import torch

FOLDER, FRAMEWORK = Path(sys.argv[1]), sys.argv[2]
ATTRIBUTES = {
    "sm_count": 132, "warp_size": 32, "max_threads_per_block": 1024, "max_threads_per_sm": 2048,
    "max_shared_memory_per_block": 232448, "max_shared_memory_per_sm": 233472,
    "l2_cache_bytes": 50 << 20,
}  # fmt: skip


def proof_of(name: str) -> Any:
    """A package's proof; its GPU is the CPU."""
    spec = importlib.util.spec_from_file_location("gpu", Path(__file__).with_name("cpu_gpu.py"))
    assert spec is not None
    assert spec.loader is not None
    gpu = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(gpu)
    sys.modules[f"{name}._gpu"] = gpu
    driver = importlib.import_module(f"{name}._driver")
    driver.attributes = lambda _ordinal: ATTRIBUTES  # type: ignore[attr-defined]
    proof = importlib.import_module(f"{name}.prove")
    cases = sorted(proof._MADE["cases"], key=elements)
    for inside, most in ((True, 110), (False, 24)):
        kept = [case for case in cases if case["inside"] is inside][:most]
        cases = [case for case in cases if case["inside"] is not inside] + kept
    proof._MADE["cases"] = cases
    return proof


def elements(case: dict[str, Any]) -> int:
    """Of the largest tensor: a CPU takes long with large ones."""
    return max(math.prod(shape) for _, shape, _, _ in case["tensors"].values())


def registry_of_sglang() -> None:
    """SGLang's registry of operators without its server, and a platform that it takes for CUDA."""
    root = Path(importlib.util.find_spec("sglang").submodule_search_locations[0])  # type: ignore
    for name, path in (("sglang", root), ("sglang.srt", root / "srt")):
        sys.modules[name] = package = types.ModuleType(name)
        package.__path__ = [str(path)]
    fused_op = importlib.import_module("sglang.kernels.fused_op")
    spec = importlib.import_module("sglang.kernels.spec")
    platform = spec.PlatformInfo(device_type="cuda", cuda_arch_major=9, cuda_arch_minor=0)
    fused_op._platform = lambda: platform  # type: ignore[attr-defined]
    activation = importlib.import_module("sglang.kernels.ops.activation")
    activation.SiluAndMulOp.forward_jit = activation.SiluAndMulOp.forward_native


def flashinfer_on_a_cpu() -> None:
    """Its own kernels need a GPU: their references, which it carries, stand in for them."""
    torch.cuda.is_current_stream_capturing = lambda: False
    activation = importlib.import_module("flashinfer.activation")

    def silu_and_mul(out: torch.Tensor, given: torch.Tensor, _pdl: bool) -> None:
        d = given.shape[-1] // 2
        out.copy_(torch.nn.functional.silu(given[..., :d]) * given[..., d:])

    module = types.SimpleNamespace(silu_and_mul=silu_and_mul)
    activation.get_act_and_mul_module = lambda _name: module  # type: ignore[attr-defined]
    activation.device_support_pdl = lambda _device: False  # type: ignore[attr-defined]
    norm = importlib.import_module("flashinfer.norm")

    def fused_add_rmsnorm(x: Any, residual: Any, weight: Any, eps: float, _pdl: bool) -> None:
        total = x.float() + residual.float()
        residual.copy_(total)
        x.copy_(total * torch.rsqrt(total.square().mean(-1, keepdim=True) + eps) * weight)

    norm.get_norm_module = lambda: types.SimpleNamespace(fused_add_rmsnorm=fused_add_rmsnorm)  # type: ignore[attr-defined]
    norm.device_support_pdl = lambda _device: False  # type: ignore[attr-defined]
    norm._use_cuda_norm = lambda _device: True  # type: ignore[attr-defined]


def together(silu: Any, norm: Any) -> dict[str, Any]:
    """Both adapters of FlashInfer in one process, and what a caller of it sees."""
    import flashinfer

    counts = {
        n: importlib.import_module(f"astra_{n}").calls
        for n in ("silu_and_mul", "fused_add_rmsnorm")
    }
    silu.adapter().uninstall()
    norm.adapter().uninstall()
    own = flashinfer.activation.silu_and_mul
    silu.adapter().install([256])
    norm.adapter().install([512])
    for calls in counts.values():
        calls.reset()
    batch = torch.randn(4, 6, 512).half()
    out = torch.empty(4, 6, 256).half()
    x, residual, weight = (
        torch.randn(3, 512).half(),
        torch.randn(3, 512).half(),
        torch.ones(512).half(),
    )
    found = {
        "shape": list(flashinfer.activation.silu_and_mul(batch).shape),
        "out": flashinfer.activation.silu_and_mul(batch, out=out) is out,
        "nothing": flashinfer.fused_add_rmsnorm(x, residual, weight, 1e-5) is None,
        "named twice": flashinfer.fused_add_rmsnorm is flashinfer.norm.fused_add_rmsnorm,
    }
    narrow = [torch.randn(3, 64).half() for _ in range(2)]
    flashinfer.norm.fused_add_rmsnorm(*narrow, torch.ones(64).half())
    found["counts"] = {name: calls.counts() for name, calls in counts.items()}
    found["trace_apply"] = flashinfer.trace_apply.stats()
    silu.adapter().uninstall()
    found["own again"] = flashinfer.activation.silu_and_mul is own
    flashinfer.norm.fused_add_rmsnorm(x, residual, weight)
    found["the other stays"] = sum(counts["fused_add_rmsnorm"].counts()["hits"].values())
    norm.adapter().uninstall()
    found["off"] = not flashinfer.trace_apply.is_enabled()
    return found


def main() -> None:
    """Proves each operator that the framework has."""
    sys.path.insert(0, str(FOLDER))
    if FRAMEWORK == "sglang":
        registry_of_sglang()
    if FRAMEWORK == "flashinfer":
        flashinfer_on_a_cpu()
    if FRAMEWORK == "vllm":
        importlib.import_module("vllm.ir").ops.fused_add_rms_norm.set_default(["native"])
    operators = sorted(path.name for path in FOLDER.glob("astra_*"))
    proofs = {name.removeprefix("astra_"): proof_of(name) for name in operators}
    found: dict[str, Any] = {name: proof.prove("cpu") for name, proof in proofs.items()}
    if FRAMEWORK == "flashinfer":
        found["together"] = together(proofs["silu_and_mul"], proofs["fused_add_rmsnorm"])
    found["astra_tui"] = sorted(n for n in sys.modules if n.partition(".")[0] == "astra_tui")
    print(json.dumps(found))


main()
