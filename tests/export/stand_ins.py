"""Stands in for packages that a framework imports and its operators do not use.

Nothing of astra_tui may be imported here.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import re
import sys
import types
from collections.abc import Sequence
from typing import Any

UNUSED = {
    "sglang": (
        *("IPython", "PIL", "compressed_tensors", "deep_gemm", "gguf", "orjson", "pybase64"),
        *("requests", "starlette", "tqdm", "transformers", "triton", "tvm_ffi", "zmq"),
        # Of SGLang itself: matrix products, and configurations of models.
        *("sglang.srt.layers.deep_gemm_wrapper", "sglang.srt.configs"),
    ),
    "vllm": (
        *("cbor2", "huggingface_hub", "openai_harmony", "requests", "safetensors"),
        *("transformers", "urllib3", "zmq"),
    ),
    "flashinfer": ("requests", "tqdm", "tvm_ffi"),
}  # fmt: skip
"""By framework; each with all that lies below it."""


class _Inert:
    """Any object: may be called, subscripted, asked for attributes, and used as a decorator."""

    def __init__(self, *_: Any, **__: Any):
        pass

    def __init_subclass__(cls, **_: Any) -> None:
        pass

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        decorated = len(arguments) == 1 and not named and callable(arguments[0])
        return arguments[0] if decorated else self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Inert()

    def __getitem__(self, _: Any) -> Any:
        return self

    def __or__(self, _: Any) -> Any:
        return self

    __ror__ = __or__


class _InertType(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Inert()


class _Module(types.ModuleType):
    __path__: list[str] = []  # noqa: RUF012 - what makes it a package
    __version__ = "0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _InertType(name, (_Inert,), {}) if name[0].isupper() else _Inert()


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, names: Sequence[str]):
        self._names = names

    def find_spec(
        self, name: str, _path: object = None, _target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        """A specification for what is below the names."""
        if not any(f"{name}.".startswith(f"{wanted}.") for wanted in self._names):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """An empty module that has every name."""
        return _Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """There is nothing to run."""


def stand_in(framework: str) -> None:
    """Lets a framework be imported without what its operators do not use."""
    sys.modules.setdefault("regex", re)
    sys.meta_path.insert(0, _Finder(UNUSED[framework]))
