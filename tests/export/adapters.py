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
from collections import Counter
from pathlib import Path
from typing import Any

import torch

FOLDER, FRAMEWORK = Path(sys.argv[1]), sys.argv[2]
OPERATORS = ("silu_and_mul", "fused_add_rmsnorm")
KEPT: list[object] = []
ATTRIBUTES = {
    "sm_count": 132, "warp_size": 32, "max_threads_per_block": 1024, "max_threads_per_sm": 2048,
    "max_shared_memory_per_block": 232448, "max_shared_memory_per_sm": 233472,
    "l2_cache_bytes": 50 << 20,
}  # fmt: skip


def next_to_this(name: str) -> Any:
    """A module whose file lies here; the folder is not one that this process imports from."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def proof_of(name: str) -> Any:
    """A package's proof; its GPU is the CPU."""
    sys.modules[f"{name}._gpu"] = next_to_this("cpu_gpu")
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


def fused_add_rmsnorm(x: Any, residual: Any, weight: Any, eps: float, *_: Any) -> None:
    """Stands in for a framework's compiled operator, which needs a GPU."""
    total = x.float() + residual.float()
    residual.copy_(total)
    x.copy_(total * torch.rsqrt(total.square().mean(-1, keepdim=True) + eps) * weight)


def silu_and_mul(out: torch.Tensor, given: torch.Tensor, *_: Any) -> None:
    """The same."""
    d = given.shape[-1] // 2
    out.copy_(torch.nn.functional.silu(given[..., :d]) * given[..., d:])


def sglang_on_a_cpu() -> None:
    """SGLang's registry and layers without its package's start, on what it takes for CUDA."""
    root = Path(importlib.util.find_spec("sglang").submodule_search_locations[0])  # type: ignore
    sys.modules["sglang"] = package = types.ModuleType("sglang")
    package.__path__ = [str(root)]
    fused_op = importlib.import_module("sglang.kernels.fused_op")
    spec = importlib.import_module("sglang.kernels.spec")
    platform = spec.PlatformInfo(device_type="cuda", cuda_arch_major=9, cuda_arch_minor=0)
    fused_op._platform = lambda: platform  # type: ignore[attr-defined]
    fused_op._platform_key = lambda: "cuda"  # type: ignore[attr-defined]
    activation = importlib.import_module("sglang.kernels.ops.activation")
    activation.SiluAndMulOp.forward_jit = activation.SiluAndMulOp.forward_native
    layers = importlib.import_module("sglang.srt.layers.activation")
    layers.silu_and_mul = lambda x, out: silu_and_mul(out, x)  # type: ignore[attr-defined]
    norm = importlib.import_module("sglang.srt.layers.layernorm")
    norm.fused_add_rmsnorm = fused_add_rmsnorm  # type: ignore[attr-defined]


def sglang_layers() -> dict[str, Any]:
    """What models call: the layer of the activation, and forms of the norm that are not ours."""
    activation = importlib.import_module("sglang.srt.layers.activation")
    norm = importlib.import_module("sglang.srt.layers.layernorm")
    calls = [importlib.import_module(f"astra_{n}").calls for n in OPERATORS]
    layer, residual_norm, other = (
        activation.SiluAndMul(),
        norm.RMSNorm(64, weight_dtype=torch.half),
        norm.RMSNorm(64, var_hidden_size=32, weight_dtype=torch.half),
    )
    for each in calls:
        each.reset()
    x, residual = torch.randn(3, 64).half(), torch.randn(3, 64).half()
    layer(torch.randn(3, 128).half())
    residual_norm(x.clone(), residual.clone())
    given = x.clone()
    kept = residual.clone(), residual.clone()
    outside = other(given, residual.clone()), other.forward_cuda(x.clone(), residual.clone())
    norm.is_batch_invariant_mode_enabled = lambda: True  # type: ignore[attr-defined]
    residual_norm(*kept)
    return {
        "counts": {n: c.counts() for n, c in zip(OPERATORS, calls, strict=True)},
        "same outside": all(torch.equal(a, b) for a, b in zip(*outside, strict=True)),
    }


def vllm_on_a_cpu() -> None:
    """vLLM's registries, its layer of the activation on what it takes for CUDA."""
    importlib.import_module("vllm.ir").ops.fused_add_rms_norm.set_default(["native"])
    compiled = torch.library.Library("_C", "FRAGMENT")
    compiled.define("silu_and_mul(Tensor! result, Tensor input) -> ()")
    compiled.impl("silu_and_mul", silu_and_mul, "CompositeExplicitAutograd")
    KEPT.append(compiled)
    custom = types.SimpleNamespace(
        custom_ops=["all"], enabled_custom_ops=Counter(), disabled_custom_ops=Counter()
    )
    config = types.SimpleNamespace(compilation_config=custom)
    importlib.import_module("vllm.config.vllm")._current_vllm_config = config  # type: ignore
    layers = importlib.import_module("vllm.model_executor.layers.activation")
    cuda = types.SimpleNamespace(is_cuda_alike=lambda: True)
    layers.current_platform = cuda  # type: ignore[attr-defined]


def vllm_layers() -> dict[str, Any]:
    """The class that vLLM makes, by whether ours stands in for it."""
    layers = importlib.import_module("vllm.model_executor.layers.activation")
    adapter = importlib.import_module("astra_silu_and_mul.vllm")
    found = {}
    kept = []
    for name in ("install", "uninstall"):
        getattr(adapter, name)()
        kept.append(layers.SiluAndMul())
        found[name] = [type(kept[-1]).__name__, kept[-1].name]
    calls = importlib.import_module("astra_silu_and_mul").calls
    calls.reset()
    x = torch.randn(3, 128).half()
    found["own again"] = bool(torch.equal(kept[0](x), kept[1](x)))
    found["counts"] = calls.counts()
    return found


def flashinfer_on_a_cpu() -> None:
    """Its own kernels need a GPU: their references, which it carries, stand in for them."""
    torch.cuda.is_current_stream_capturing = lambda: False
    activation = importlib.import_module("flashinfer.activation")
    module = types.SimpleNamespace(silu_and_mul=silu_and_mul)
    activation.get_act_and_mul_module = lambda _name: module  # type: ignore[attr-defined]
    activation.device_support_pdl = lambda _device: False  # type: ignore[attr-defined]
    norm = importlib.import_module("flashinfer.norm")

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


def fails_on_a_width(proof: Any) -> int:
    """Lets the operator without the kernels fail on the rarest width; how many calls have it."""
    hook = proof.adapter()._hook
    own = hook._fallback
    inside = [c["tensors"]["input"][1][-1] for c in proof._MADE["cases"] if c["inside"]]
    width = min(inside, key=inside.count)

    def failing(given: torch.Tensor) -> torch.Tensor:
        if given.shape[-1] == width:
            raise ValueError("too wide")
        found: torch.Tensor = own(given)
        return found

    hook._fallback = failing
    return inside.count(width)


LAYERS = {"sglang": sglang_layers, "vllm": vllm_layers}
PREPARED = {"sglang": sglang_on_a_cpu, "vllm": vllm_on_a_cpu, "flashinfer": flashinfer_on_a_cpu}


def main() -> None:
    """Proves each operator that the framework has."""
    sys.path.insert(0, str(FOLDER))
    if FRAMEWORK in PREPARED:
        next_to_this("stand_ins").stand_in(FRAMEWORK)
        PREPARED[FRAMEWORK]()
    operators = sorted(path.name for path in FOLDER.glob("astra_*"))
    proofs = {name.removeprefix("astra_"): proof_of(name) for name in operators}
    for proof in proofs.values():
        proof.adapter()
    fails = fails_on_a_width(proofs["silu_and_mul"]) if FRAMEWORK == "torch" else 0
    found: dict[str, Any] = {name: proof.prove("cpu") for name, proof in proofs.items()}
    found["fails"] = fails
    if FRAMEWORK in LAYERS:
        found["layers"] = LAYERS[FRAMEWORK]()
    if FRAMEWORK == "flashinfer":
        found["together"] = together(proofs["silu_and_mul"], proofs["fused_add_rmsnorm"])
    found["astra_tui"] = sorted(n for n in sys.modules if n.partition(".")[0] == "astra_tui")
    print(json.dumps(found))


main()
