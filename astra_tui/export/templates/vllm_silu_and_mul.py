"""silu_and_mul of vLLM: an out-of-tree class of the layer SiluAndMul, by vLLM's registry."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import torch

from . import _operator
from ._pins import FrameworkChanged, require_parameters, require_version

VERSION = "0.33.0"
require_version("vllm", VERSION)

from vllm.model_executor.custom_op import CustomOp, op_registry_oot  # noqa: E402
from vllm.model_executor.layers.activation import SiluAndMul  # noqa: E402

API = "vllm.model_executor.layers.activation.SiluAndMul"

_NAME = "SiluAndMul"
require_parameters(SiluAndMul.forward_cuda, "self, x")
require_parameters(CustomOp.register_oot, "_decorated_op_cls=None, name=None")


def _own(x: torch.Tensor) -> torch.Tensor:
    """What vLLM's layer runs."""
    found: torch.Tensor = SiluAndMul.forward_cuda(
        SimpleNamespace(op=torch.ops._C.silu_and_mul),  # All that the function asks of its layer.
        x,
    )
    return found


class AstraSiluAndMul(SiluAndMul):  # type: ignore[misc]
    """vLLM's layer, whose calls inside the guard are launched here."""

    def forward_cuda(self, x: torch.Tensor) -> torch.Tensor:
        """The kernel inside the guard, else the layer's own."""
        if not _installed():
            return _own(x)
        if torch.compiler.is_compiling():
            made = torch.ops.astra.silu_and_mul(x.reshape(-1, x.shape[-1]))
            return made.view((*x.shape[:-1], x.shape[-1] // 2))
        if x.dim() < 2 or not x.is_contiguous() or x.shape[-1] % 2:
            _operator.calls.fell_back("the input is not rows of an even width without gaps")
            return _own(x)
        made = x.new_empty((*x.shape[:-1], x.shape[-1] // 2))
        rows, produced = (t.view(-1, t.shape[-1]) for t in (x, made))
        launch = _operator.take((produced,), (rows,), ())
        if launch is None:
            return _own(x)
        launch()
        return made


def _installed() -> bool:
    return op_registry_oot.get(_NAME) is AstraSiluAndMul


def install(widths: Iterable[int] = ()) -> None:
    """Registers the class; with the switch off it does nothing. Call it before the engine is made.

    vLLM uses such layers where its `custom_ops` has "all" or "+silu_and_mul". With Inductor its
    default is "none": Inductor then fuses the operator itself, and this class is not asked.
    """
    del widths
    plugin()
    _operator.load()


def plugin() -> None:
    """Installs it as one of vLLM's plugins, which each of its processes calls.

    CUDA stays untouched until a call: the process that starts the others may have no context.
    """
    if _operator.calls.off or _installed():
        return
    if _NAME in op_registry_oot:
        raise FrameworkChanged(f"another class stands in for {_NAME}: {op_registry_oot[_NAME]}")
    CustomOp.register_oot(AstraSiluAndMul, name=_NAME)
    AstraSiluAndMul.name = SiluAndMul.name  # By which `custom_ops` enables it.
    _operator.set_fallback(_own)


def uninstall() -> None:
    """Ends it; layers that were made meanwhile run vLLM's own."""
    if _installed():
        del op_registry_oot[_NAME]


@functools.cache
def _layer(installed: bool) -> Any:
    """The layer as a model would make it now, where `custom_ops` has "all"."""
    del installed
    from vllm import config

    if config.get_current_vllm_config_or_none() is not None:
        return SiluAndMul()
    wanted = config.VllmConfig(compilation_config=config.CompilationConfig(custom_ops=["all"]))
    with config.set_current_vllm_config(wanted):
        return SiluAndMul()


def call(given: dict[str, Any]) -> dict[str, torch.Tensor]:
    """One call through vLLM's layer, for proofs: what it writes, by the task's names."""
    return {"out": _layer(_installed())(given["input"])}
