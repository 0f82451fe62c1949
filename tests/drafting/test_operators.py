"""Operators that a draft recognises: the reference it offers judges kernels on the emulator."""

from __future__ import annotations

import inspect
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from astra_tui.drafting import Draft
from astra_tui.drafting.operators import KernelFacts, ScalarFacts, TensorFacts
from astra_tui.drafting.operators.library import OPERATORS, choose, reference_text
from astra_tui.drafting.operators.matching import Reference
from astra_tui.emulator.device import Emulator
from astra_tui.lab.check.runner import Checker, select_cases
from astra_tui.lab.compiler import Compiler
from astra_tui.model.check import CheckReport, CheckVerdict
from astra_tui.model.dtypes import DType
from astra_tui.model.task import ArgumentRole, KernelTask, load_task
from tests.conftest import OracleHere
from tests.drafting.reading import drafted, texts

SOURCES = Path(__file__).parent / "operator_sources"
CASES = ("*=7", "*=100", "*/all shifted by 1", "*/tiny values", "*/zeros of both signs")


@dataclass(frozen=True)
class Kernel:
    """A source, what it has to be taken for, and a mistake: text that is replaced by other text."""

    source: str
    operator: str
    mistake: tuple[str, str]
    points: tuple[str, ...] = ()
    asked: str = ""
    """The open point of the mistaken source's draft, where the mistake shows in the reference."""


KERNELS = [
    Kernel("fused_add_rms_norm", "fused add and RMSNorm", ("/ d + kEps", "/ d"),
           ("eps is taken to be 1e-5",), "eps: the kernel takes none and shows none"),
    Kernel("gemma_norm", "gemma RMSNorm", ("(1.0f + gamma[i])", "gamma[i]")),
    Kernel("layer_norm", "LayerNorm", ("squares / C", "squares / (C - 1)"),
           ("eps is taken to be 1e-5",)),
    Kernel("rms_norm_int8", "RMSNorm and per-token quantisation",
           ("(int8_t)rintf(", "(int8_t)(")),
    Kernel("silu_and_mul", "silu and mul",
           ("gate = row[i], up = row[d + i]", "gate = row[d + i], up = row[i]")),
    Kernel("bias_gelu", "bias and gelu", ("0.70710678f", "0.5f")),
    Kernel("rope", "rotary embedding, neox layout",
           ("x = head[i], y = head[half_dim + i];\n"
            "  head[i] = x * c - y * s;\n  head[half_dim + i]",
            "x = head[2 * i], y = head[2 * i + 1];\n  head[2 * i] = x * c - y * s;\n"
            "  head[2 * i + 1]"),
           ("layout: neox (i with i + half)", "positions: drawn below cos_sin_cache_rows")),
    Kernel("group_quant", "group quantisation", ("most / 448.0f", "most / 240.0f")),
    Kernel("topk_softmax", "top-k of softmax", ("if (renormalize)\n", "if (!renormalize)\n"),
           ("topk_indices: role out, as in top-k of softmax; confirm",)),
    Kernel("top_p_renorm", "top-p renormalisation", ("before < top_p", "before <= top_p / 2")),
    Kernel("cache_write", "cache write", ("key_cache[slot * width + i]", "key_cache[slot * width]"),
           ("slot_mapping: drawn so that all differ",)),
    Kernel("merge_states", "merge of two attention states, log2", ("log2f(", "logf("),
           ("base 2 of s_a and s_b: confirm",), "say which operator this is"),
    Kernel("moe_sum", "sum over experts", ("k < topk;", "k < topk - 1;")),
    Kernel("adamw", "AdamW", (" / beta2_correction;", ";")),
]  # fmt: skip


def text_of(name: str) -> str:
    """The text of a source."""
    return (SOURCES / f"{name}.cu").read_text()


def with_mistake(kernel: Kernel, text: str) -> str:
    """A source with its mistake."""
    old, new = kernel.mistake
    assert old in text
    return text.replace(old, new)


def written(draft: Draft, folder: Path) -> KernelTask:
    """The task of a draft with few and small sizes."""
    folder.mkdir()
    for name, text in draft.files.items():
        if name == "task.toml":
            text = re.sub(r"sizes = .*", "", text)
            text = re.sub(r"typical = (?!128|64|16)\d+", "typical = 14", text)
        (folder / name).write_text(text)
    return load_task(folder)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.source)
def test_the_offered_reference_passes_the_kernel_and_fails_its_mistake(
    kernel: Kernel, compiler: Compiler, tmp_path: Path
) -> None:
    draft = drafted(kernel.source, text_of(kernel.source), f"{kernel.source}.cu")
    points = " | ".join(texts(draft))
    assert f"reference.py: looks like {kernel.operator} (named" in points
    assert "; confirm" in points
    assert [p for p in kernel.points if p not in points] == []
    task = written(draft, tmp_path / kernel.source)
    checker = Checker(task, Emulator(), compiler, OracleHere(task))
    passed, failed = (
        list(checker.check(text, "candidate.cu", select_cases(task, CASES)))[-1]
        for text in (draft.files["baseline.cu"], with_mistake(kernel, draft.files["baseline.cu"]))
    )
    assert isinstance(passed, CheckReport)
    assert isinstance(failed, CheckReport)
    assert passed.verdict is CheckVerdict.PASSED, passed.message
    assert len(passed.cases) >= 3
    assert failed.verdict is CheckVerdict.FAILED
    mistaken = with_mistake(kernel, text_of(kernel.source))
    wrong = drafted(kernel.source, mistaken, f"{kernel.source}.cu")
    moved = wrong.files["reference.py"] != draft.files["reference.py"]
    assert moved == bool(kernel.asked), "no mistake moves the reference silently"
    assert any(kernel.asked in point for point in texts(wrong))


# -- references against torch's own operators ------------------------------------------------------

T, K, D = 5, 3, 8
SIZES = {
    "t": T, "k": K, "d": D, "h": 2, "heads": 2, "v": 16, "rows": 64, "rot_dim": D, "n_group": 2,
    "num_experts": 8, "block_size": 4, "org_vocab_start_index": 1, "org_vocab_end_index": 4,
    "added_vocab_start_index": 5, "added_vocab_end_index": 7, "added_row_offset": 3,
}  # fmt: skip


def facts(kernel: str, arguments: str, body: str = "", **template: str) -> KernelFacts:
    """Facts of a kernel: `name:role:dtype:size,size` for tensors, `name:dtype` for scalars."""
    tensors, scalars = [], []
    for argument in arguments.split():
        name, *rest = argument.split(":")
        if len(rest) == 1:
            scalars.append(ScalarFacts(name, DType(rest[0])))
        else:
            role, dtype, sizes = rest
            found = DType(dtype) if dtype != "T" else None
            sizes = sizes.replace("2d", "2 * d").replace("hd", "heads * d")
            tensors.append(TensorFacts(name, ArgumentRole(role), found, tuple(sizes.split(","))))
    used = re.findall(r"[a-z_]+", " ".join(s for t in tensors for s in t.sizes))
    dims = tuple(dict.fromkeys((*used, *template.pop("dims", "").split())))
    return KernelFacts(kernel, tuple(tensors), tuple(scalars), dims, template, body)


def inputs_of(kernel: KernelFacts, reference: Reference) -> dict[str, Any]:
    """Drawn tensors, scalars and dimensions by name."""
    import torch

    torch.manual_seed(1)
    sizes = {name: SIZES.get(name, 1) for name in kernel.dims}
    found: dict[str, Any] = dict(sizes)
    for tensor in kernel.tensors:
        shape = [eval(size, {}, sizes) for size in tensor.sizes]
        text = reference.values.get(tensor.name, '{ kind = "normal" }')
        values = tomllib.loads(f"v = {text}")["v"]
        if tensor.dtype is not None and not tensor.dtype.is_float:
            high = eval(str(values.get("high", 7)), {}, sizes)
            found[tensor.name] = torch.randint(0, min(high, 7) + 1, shape)
        elif values["kind"] == "uniform":
            found[tensor.name] = torch.rand(shape, dtype=torch.float64)
        elif values["kind"] == "distribution":
            found[tensor.name] = torch.rand(shape, dtype=torch.float64).softmax(dim=-1)
        else:
            found[tensor.name] = torch.randn(shape, dtype=torch.float64)
    for number in kernel.scalars:
        default = 0.5 if number.dtype.is_float else 0
        found[number.name] = reference.choices.get(number.name, (default,))[0]
    return found


F = "torch.nn.functional"
ROPE = "positions:in:int64:t query:inout:T:t,hd cos_sin_cache:in:float32:rows,d"
MERGE = "v_a:in:T:t,h,d s_a:in:float32:t,h v_b:in:T:t,h,d s_b:in:float32:t,h out:out:T:t,h,d"
ADDED = "x:inout:T:t,d residual:inout:T:t,d weight:in:T:d"
QUANT = "out:out:uint8:t,d weight:in:T:d scale:in:float32:1 eps:float32"
CODES = "({}).clamp(-448, 448).to(torch.float8_e4m3fn).view(torch.uint8)"
NORMED = F + ".rms_norm(x + residual, (d,), {}weight, eps)"
PAIR = "out:out:T:t,d input:in:T:t,2d "
GATE, UP = "input[:, :d]", "input[:, d:]"
NEOX = (
    "(lambda x, c, s: torch.cat((x[..., :4] * c - x[..., 4:] * s, x[..., 4:] * c + x[..., :4] * s),"
    " -1).reshape({x}.shape))({x}.reshape(t, -1, 8), *{angles})"
)
PAIRS = (
    "torch.view_as_real(torch.view_as_complex({x}.reshape(t, -1, 4, 2)) * torch.complex(*{angles})"
    ").reshape({x}.shape)"
)
CACHED = "cos_sin_cache[positions].unsqueeze(1).chunk(2, -1)"
RATES = "(positions[:, None, None] * rope_rcp_theta ** (torch.arange(4).double() / 4))"
SCALED = f"[f({RATES} * rope_rcp_scale) for f in (torch.cos, torch.sin)]"
APART = (
    "positions:in:int64:t q:in:T:t,heads,d k:in:T:t,1,d q_rope:out:T:t,heads,d k_rope:out:T:t,1,d "
)
FORMULA = (
    "positions:in:int64:t q:in:T:t,heads,rot_dim k:in:T:t,1,rot_dim q_rope:out:T:t,heads,rot_dim "
    "k_rope:out:T:t,1,rot_dim smooth_a:float32 smooth_b:float32 rope_rcp_scale:float32 "
    "rope_rcp_theta:float32"
)
QKV = (
    "qkv:inout:T:t,(num_heads_q+num_heads_k+1)*d q_weight:in:T:d k_weight:in:T:d eps:float32 "
    "cos_sin_cache:in:float32:rows,d positions:in:int64:t"
)
GATING = "gating:in:T:t,v weights:out:T:t,k indices:out:int32:t,k renormalize:bool "
LATENT = "kv_c:in:T:t,d k_pe:in:T:t,k kv_cache:inout:T:rows,d+k slot_mapping:in:int64:t"
STORED = "kv_cache.index_copy(0, slot_mapping, torch.cat((kv_c, k_pe), -1))"
SETS = "v:in:T:t,k,h,d s:in:float32:t,k,h v_merged:out:T:t,h,d"
ADAM = (
    "p:inout:T:v g:in:T:v m:inout:T:v v:inout:T:v lr:float32 beta1:float32 beta2:float32 "
    "eps:float32 weight_decay:float32 step:int32"
)
ADAM_STEP = (
    "(lambda w: (setattr(w, 'grad', g), (lambda o: (o.state[w].update(exp_avg=m.clone(),"
    " exp_avg_sq=v.clone(), step=torch.tensor(step - 1.0)), o.step()))(torch.optim.{}([w], lr,"
    " (beta1, beta2), eps, weight_decay)), w.detach())[-1])(torch.nn.Parameter(p.clone()))"
)
EDGES = " ".join(
    f"{kind}_vocab_{end}_index" for kind in ("org", "added") for end in ("start", "end")
)  # fmt: skip
MORE: list[tuple[KernelFacts, str, str]] = [
    (facts("gemma_fused_add_rmsnorm", ADDED + " eps:float32"), "x", NORMED.format("1 + ")),
    (facts("rms_norm_static_fp8_quant", QUANT + " x:in:T:t,d"), "out",
     CODES.format(F + ".rms_norm(x, (d,), weight, eps) / scale")),
    (facts("fused_add_rms_norm_static_fp8_quant", QUANT + " x:in:T:t,d residual:inout:T:t,d"),
     "out", CODES.format(NORMED.format("") + " / scale")),
    (facts("fused_add_rms_norm_fp8_block_quant", "scales:out:float32:t,1 out:out:uint8:t,d "
           "eps:float32 " + ADDED.replace("x:inout", "x:in"), GROUP_SIZE="8"), "scales",
     NORMED.format("") + ".abs().amax(-1, True) / 448"),
    (facts("per_token_group_quant_fp8", "x:in:T:t,v out:out:uint8:t,v scales:out:float32:h,t",
           GROUP_SIZE="8"), "scales", "x.reshape(t, h, 8).abs().amax(-1).t() / 448"),
    (facts("qk_norm", "q:inout:T:t,hd k:inout:T:t,d q_weight:in:T:d k_weight:in:T:d eps:float32"),
     "q", F + ".rms_norm(q.reshape(t, heads, d), (d,), q_weight, eps).reshape(t, heads * d)"),
    (facts("eh_norm", "embeds:in:T:t,d previous_hidden:in:T:t,d enorm_weight:in:T:d "
           "hnorm_weight:in:T:d out:out:T:t,2d eps:float32"), "out",
     f"torch.cat(({F}.rms_norm(embeds, (d,), enorm_weight, eps), "
     f"{F}.rms_norm(previous_hidden, (d,), hnorm_weight, eps)), -1)"),
    *((facts(f"{name}_kernel", "x:in:T:t,d out:out:T:t,d"), "out", text)
      for name, text in (
          ("silu", F + ".silu(x)"), ("sigmoid", "torch.sigmoid(x)"), ("gelu", F + ".gelu(x)"),
          ("relu", F + ".relu(x)"), ("relu2", F + ".relu(x) ** 2"),
          ("softmax", F + ".softmax(x, -1)"))),
    *((facts(f"bias_{name}", "x:in:T:t,d bias:in:T:d out:out:T:t,d"), "out", text)
      for name, text in (
          ("silu", F + ".silu(x + bias)"), ("relu", F + ".relu(x + bias)"),
          ("sigmoid", "torch.sigmoid(x + bias)"), ("relu2", F + ".relu(x + bias) ** 2"),
          ("gelu_tanh", F + ".gelu(x + bias, approximate='tanh')"),
          ("gelu_quick", "(x + bias) * torch.sigmoid(1.702 * (x + bias))"))),
    *((facts(f"{name}_and_mul", PAIR + more), "out", text)
      for name, more, text in (
          ("gelu_quick", "", f"{GATE} * torch.sigmoid(1.702 * {GATE}) * {UP}"),
          ("sigmoid", "", f"torch.sigmoid({GATE}) * {UP}"),
          ("relu2", "", f"{F}.relu({GATE}) ** 2 * {UP}"),
          ("silu", "limit:float32 alpha:float32 beta:float32",
           "(lambda g, u: g * torch.sigmoid(alpha * g) * (u + beta))"
           f"({GATE}.clamp(max=limit), {UP}.clamp(-limit, limit))"),
          ("swiglustep", "limit:float32",
           f"{F}.silu({GATE}).clamp(max=limit) * {UP}.clamp(-limit, limit)"),
          ("fatrelu", "threshold:float32", f"{F}.threshold({GATE}, threshold, 0.0) * {UP}"),
          ("situ", "beta:float32 linear_beta:float32",
           f"beta * torch.tanh({GATE} / beta) * torch.sigmoid({GATE})"
           f" * linear_beta * torch.tanh({UP} / linear_beta)"))),
    *((facts(f"rope_{layout}", arguments), output, text.format(x=x, angles=angles))
      for layout, text in (("neox", NEOX), ("interleaved", PAIRS))
      for arguments, output, x, angles in (
          (ROPE, "query", "query", CACHED),
          (APART + "cos_sin_cache:in:float32:rows,d", "k_rope", "k", CACHED),
          (FORMULA, "q_rope", "q", SCALED))),
    *((facts(f"qk_norm_rope_{layout}", QKV), "qkv",
       f"torch.cat(((lambda x: {text.format(x='x', angles=CACHED)})({F}.rms_norm("
       "qkv.reshape(t, 3, d)[:, :2], (d,), None, eps) * torch.stack((q_weight, k_weight)))"
       ".flatten(1), qkv[:, 2 * d :]), -1)")
      for layout, text in (("neox", NEOX), ("interleaved", PAIRS))),
    (facts("scaled_fp8_quant", "x:in:T:t,d scale:in:float32:t out:out:uint8:t,d"), "out",
     CODES.format("x / scale[:, None]")),
    (facts("static_scaled_int8_azp_quant", "input:in:T:t,d out:out:int8:t,d scale:in:float32:1 "
           "azp:in:int32:1"), "out", "(input / scale + azp).clamp(-128, 127)"),
    (facts("dynamic_per_token_scaled_fp8_quant", "out:out:uint8:t,d scale:out:float32:t "
           "input:in:T:t,d scale_ub:in:float32:1"), "scale",
     "torch.minimum(input.abs().amax(-1), scale_ub) / 448"),
    (facts("dynamic_int8_azp_quant", "input:in:T:t,d out:out:int8:t,d scale:out:float32:t "
           "azp:out:int32:t"), "azp",
     "-128 - input.amin(-1) / ((input.amax(-1) - input.amin(-1)) / 255)"),
    (facts("absmax_reduction", "scale:inout:float32:1 x:in:T:t,d"), "scale",
     "torch.maximum(scale, x.abs().max() / 448)"),
    (facts("topk_sigmoid", GATING), "weights", "torch.sigmoid(gating).topk(k, -1).values"),
    (facts("moe_topk", GATING), "indices", "gating.topk(k, -1).indices"),
    *((facts("grouped_topk", GATING + "bias:in:T:v", body, dims="n_group topk_group"), "indices",
       "(lambda s: s.masked_fill(torch.arange(16) // 8 != s.reshape(t, 2, 8).topk(2).values"
       f".sum(-1).argmax(-1, True), -9e9).topk(k).indices)({text} + bias)")
      for body, text in (("sigmoid", "torch.sigmoid(gating)"), ("SCORING_NONE", "gating"))),
    (facts("top_k_mask_logits", "logits:in:T:t,v masked_logits:out:T:t,v top_k_arr:in:int32:t"),
     "masked_logits", "torch.stack([x.masked_fill(x < x.topk(int(n)).values[-1], -torch.inf)"
     " for x, n in zip(logits, top_k_arr)])"),
    (facts("apply_repetition_penalties", "logits:inout:T:t,v prompt_mask:in:bool:t,v "
           "output_mask:in:bool:t,v repetition_penalties:in:T:t"), "logits",
     "torch.where((prompt_mask + output_mask) > 0, torch.where(logits > 0,"
     " logits / repetition_penalties[:, None], logits * repetition_penalties[:, None]), logits)"),
    (facts("reshape_and_cache", "key:in:T:t,heads,d value:in:T:t,heads,d slot_mapping:in:int64:t "
           "key_cache:inout:T:rows,heads,2,v,4 value_cache:inout:T:rows,heads,d,v"), "key_cache",
     "torch.as_tensor([key_cache.__setitem__((s // 16, slice(None), slice(None), s % 16), "
     "k_.reshape(heads, 2, 4)) for s, k_ in zip(slot_mapping, key)] and key_cache)"),
    (facts("concat_and_cache_mla", LATENT), "kv_cache", STORED),
    (facts("set_mla_kv_concat_q", LATENT + " q_nope:in:T:t,h,d q_rope:in:T:t,h,d "
           "q_out:out:T:t,h,2d"), "q_out", "torch.cat((q_nope, q_rope), -1)"),
    *((facts("merge_state_in_place", MERGE.split(" out:")[0].replace("v_a:in", "v:inout").replace(
        "s_a:in", "s:inout").replace("v_b", "v_other").replace("s_b", "s_other"), body), "s",
       f"{text}(s, s_other)")
      for body, text in (
          ("expf(x) logf(x)", "torch.logaddexp"), ("exp2f(x) log2f(x)", "torch.logaddexp2"))),
    *((facts("merge_states", SETS, body), "v_merged",
       f"(torch.softmax(s * {factor}, 1)[..., None] * v).sum(1)")
      for body, factor in (("expf(x) logf(x)", 1.0), ("exp2f(x) log2f(x)", 0.6931471805599453))),
    (facts("attention_sum", "v:in:T:t,k,h,d v_sum:out:T:t,h,d"), "v_sum", "torch.sum(v, 1)"),
    (facts("moe_align_block_size", "topk_ids:in:int32:t,k sorted_token_ids:out:int32:rows "
           "expert_ids:out:int32:rows total_tokens_post_pad:out:int32:1",
           dims="num_experts block_size"),
     "total_tokens_post_pad", "sum(-(-(topk_ids == e).sum() // 4) * 4 for e in range(8))[None]"),
    (facts("encoder_embedding", "ids:in:int32:t wpe:in:T:t,d wte:in:T:v,d out:out:T:t,d"), "out",
     F + ".embedding(ids, wte) + wpe"),
    (facts("vocab_parallel_embedding", "ids:in:int64:t weight:in:T:v,d out:out:T:t,d",
           dims=f"{EDGES} added_row_offset"), "out",
     "torch.stack([weight[i - 1] if 1 <= i < 4 else weight[i - 5 + 3] if 5 <= i < 7"
     " else torch.zeros(d).double() for i in ids])"),
    (facts("crossentropy", "probs:in:T:t,v targets:in:int32:t losses:out:T:t"), "losses",
     F + ".nll_loss(probs.log(), targets, reduction='none')"),
    *((facts(name, ADAM), "p", ADAM_STEP.format(optimiser))
      for name, optimiser in (("adam_kernel", "Adam"), ("adamw_kernel", "AdamW"))),
    (facts("pack_bits", "x:in:bool:v out:out:uint8:h", "x << i;"), "out",
     "torch.from_numpy(__import__('numpy').packbits((x != 0).numpy(), bitorder='little'))"),
    (facts("add3", "a:in:T:t b:in:T:t c:in:T:t out:out:T:t"), "out", "a + b + c"),
    (facts("vec_mul", "a:in:T:t,d b:in:T:d c:out:T:t,d"), "c", "torch.mul(a, b)"),
    (facts("clamp_position", "seq_lens:in:int64:t dst:out:int64:t"), "dst",
     "(seq_lens - 1).clamp(min=0)"),
    (facts("scale_kernel", "x:inout:T:t,d alpha:float32"), "x", "x * alpha"),
]  # fmt: skip
TABLE: list[tuple[KernelFacts, str, str]] = [
    (facts(f"{name}_and_mul_kernel", "out:out:T:t,d input:in:T:t,2d"), "out",
     f"{text.format(x='input[:, :d]')} * input[:, d:]")
    for name, text in (
        ("silu", F + ".silu({x})"), ("gelu", F + ".gelu({x})"), ("relu", F + ".relu({x})"),
        ("gelu_tanh", F + ".gelu({x}, approximate='tanh')"),
    )
] + [
    (facts("mul_and_silu_kernel", "out:out:T:t,d input:in:T:t,2,d"), "out",
     F + ".silu(input[:, 1]) * input[:, 0]"),
    (facts("act_and_mul_kernel", "out:out:T:t,d input:in:T:t,2d", ACT_FN="vllm::silu_kernel<T>"),
     "out", F + ".silu(input[:, :d]) * input[:, d:]"),
    (facts("swigluoai_and_mul", "out:out:T:t,d input:in:T:t,2d alpha:float32 limit:float32"), "out",
     "(input[:, 1::2].clamp(-limit, limit) + 1) * input[:, ::2].clamp(max=limit)"
     " * torch.sigmoid(alpha * input[:, ::2].clamp(max=limit))"),
    (facts("gelu_quick_kernel", "out:out:T:t,d x:in:T:t,d"), "out", "x * torch.sigmoid(1.702 * x)"),
    (facts("gelu_new_kernel", "x:inout:T:t,d"), "x", F + ".gelu(x, approximate='tanh')"),
    (facts("act_kernel", "input:in:T:t,d out_arg:out:T:t,d", "tanhf 0.0447 expf", kAct="Act::kReLU2"
           ), "out_arg", F + ".relu(input) ** 2"),
    (facts("log_softmax", "x:in:T:t,d out:out:T:t,d"), "out", F + ".log_softmax(x, -1)"),
    (facts("layer_norm", "x:in:T:t,d w:in:T:d b:in:T:d y:out:T:t,d eps:float32"), "y",
     F + ".layer_norm(x, (d,), w, b, eps)"),
    (facts("rms_norm", "x:in:T:t,h,d weight:in:T:d out:out:T:t,h,d eps:float32"), "out",
     F + ".rms_norm(x, (d,), weight, eps)"),
    (facts("rms_norm", "x:in:T:t,d weight:in:T:t,d out:out:T:t,d eps:float32"), "out",
     F + ".rms_norm(x, (d,), None, eps) * weight"),
    (facts("crossentropy_forward", "logits:in:T:t,v targets:in:int32:t losses:out:T:t"), "losses",
     F + ".cross_entropy(logits, targets, reduction='none')"),
    (facts("embedding_kernel", "ids:in:int64:t weight:in:T:v,d out:out:T:t,d"), "out",
     F + ".embedding(ids, weight)"),
    (facts("rope_interleaved", ROPE), "query",
     "torch.view_as_real(torch.view_as_complex(query.reshape(t, heads, d // 2, 2)) * torch.complex("
     "*cos_sin_cache[positions].chunk(2, -1)).unsqueeze(1)).reshape(t, heads * d)"),
    (facts("merge_attn_states", MERGE, "expf(x) logf(x)"), "out",
     "torch.softmax(torch.stack((s_a, s_b)), 0)[0].unsqueeze(-1) * v_a"
     " + torch.softmax(torch.stack((s_a, s_b)), 0)[1].unsqueeze(-1) * v_b"),
    (facts("concat_mla_k", "k:out:T:t,h,2d k_nope:in:T:t,h,d k_rope:in:T:t,d"), "k",
     "torch.cat((k_nope, k_rope.unsqueeze(1).expand(t, h, d)), -1)"),
    (facts("pack_bits", "x:in:bool:v out:out:uint8:h", "0x80"), "out",
     "torch.from_numpy(__import__('numpy').packbits((x != 0).numpy()))"),
    (facts("top_k_renorm_prob", "probs:in:T:t,v renormed:out:T:t,v k:int32"), "renormed",
     "(lambda kept: kept / kept.sum(-1, True))"
     "(torch.zeros_like(probs).scatter(-1, probs.topk(k, -1).indices, probs.topk(k, -1).values))"),
    (facts("vec_add", "a:in:T:t,d b:in:T:t,d c:out:T:t,d"), "c", "torch.add(a, b)"),
    (facts("clamp_kernel", "x:inout:T:t,d lo:float32 hi:float32"), "x", "torch.clamp(x, lo, hi)"),
    *MORE,
]  # fmt: skip


@pytest.mark.parametrize(
    ("kernel", "output", "expected"), TABLE, ids=lambda v: getattr(v, "kernel", "")
)
def test_a_reference_says_what_torch_says(kernel: KernelFacts, output: str, expected: str) -> None:
    import torch

    choice = choose(kernel)
    assert choice.reference is not None, choice.open_points
    scope: dict[str, Any] = {}
    exec(reference_text("k", kernel, choice), scope)
    given = inputs_of(kernel, choice.reference)
    wanted = {n: given[n] for n in inspect.signature(scope["reference"]).parameters}
    found = scope["reference"](**wanted)[output].double()
    torch.testing.assert_close(found, eval(expected, {**given, "torch": torch}).double())


def test_each_operator_is_tried() -> None:
    chosen = {m.operator for kernel, _, _ in TABLE for m in choose(kernel).offered}
    assert {o.name for o in OPERATORS} - chosen - {k.operator for k in KERNELS} == set()


def test_what_only_the_engineer_can_tell_apart_is_asked() -> None:
    kernel = facts("rotary_kernel", ROPE)
    choice = choose(kernel)
    (point,) = choice.open_points
    assert point.startswith("reference.py: say which operator this is: rotary embedding, neox")
    text = reference_text("rope", kernel, choice)
    compile(text, "reference.py", "exec")
    assert "def rotary_embedding_neox_layout(" in text
    assert "def rotary_embedding_interleaved_layout(" in text
    with pytest.raises(NotImplementedError, match="choose rotary_embedding_neox_layout or"):
        exec(text + "\nreference()", {})


@pytest.mark.parametrize(
    ("arguments", "body", "said"),
    [
        ("x:in:T:t,d weight:in:T:d out:out:T:t,d eps:float32",
         "rsqrtf(s + eps) * (1.0f + weight[i])",
         "say which operator this is: RMSNorm"),
        ("x:in:T:t,d weight:in:T:d out:out:T:t,d extra:out:T:t,d eps:float32", "rsqrtf(s + eps)",
         "nearest: RMSNorm"),
        ("x:in:T:t,d weight:in:T:d out:out:T:t,d mask:in:T:t other:in:T:t", "rsqrtf(s + eps)",
         "mask, other play no part in it"),
        ("x:in:T:t,d torch:in:T:d out:out:T:t,d eps:float32", "rsqrtf(s + eps)", "write what"),
    ],
)  # fmt: skip
def test_a_doubtful_match_is_no_offer(arguments: str, body: str, said: str) -> None:
    choice = choose(facts("rms_norm_kernel", arguments, body))
    assert choice.reference is None
    assert said in " | ".join(choice.open_points)


def test_a_source_that_is_written_to_be_slow_is_read() -> None:
    body = "rsqrtf(" * 20_000 + "max(" * 20_000
    name = "FusedAddRMSNorm" + "A" * 20_000 + "Add" * 5_000
    assert choose(facts(name, "x:inout:T:t,d residual:inout:T:t,d weight:in:T:d", body)).offered
