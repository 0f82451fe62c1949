"""CUDA C++: the kernels as they are, and one host for them, which TVM-FFI's module wraps."""

from __future__ import annotations

from typing import Any

from astra_tui.export.artefact import Files, Subject, rendered, template
from astra_tui.export.cpp_expression import cpp_name
from astra_tui.export.cpp_plan import cpp_plan
from astra_tui.export.dependent import caller_notice
from astra_tui.model.task import KernelTask
from astra_tui.model.task.dims import dim_sources

_WIDTH = 88
_FIXED = ("astra_host.hpp", "astra_launch.cuh")


def cpp_project(subject: Subject) -> Files:
    """The files: header, plan, launcher, kernels, and what the plan is written with."""
    return _project(subject, tvm_ffi=False)


def tvm_ffi_project(subject: Subject) -> Files:
    """The same, and the entry of a module that takes DLPack tensors."""
    return _project(subject, tvm_ffi=True)


def _project(subject: Subject, *, tvm_ffi: bool) -> Files:
    name = subject.task.name
    words = {**cpp_words(subject), "made": cpp_plan(subject), "tvm_ffi": tvm_ffi}
    made = [f"{name}.h", f"{name}_plan.hpp", f"{name}.cu", "CMakeLists.txt"]
    made += [f"{name}_tvm_ffi.cc"] * tvm_ffi
    return {
        **{file: rendered(f"{file.replace(name, 'task')}.jinja", words) for file in made},
        f"{name}_kernels.cuh": subject.mark(f"{name}: the kernels", "//") + subject.winner.text,
        **{file: template(file, attributes=subject.attributes) for file in _FIXED},
        **subject.headers,
    }


def cpp_words(subject: Subject) -> dict[str, Any]:
    """What the templates of a project say of its operator, but for the plan."""
    task = subject.task
    sources = dim_sources(task, task.tensors)
    kinds = {a.name: a.dtype is None or a.dtype.is_float for a in task.scalars}
    kinds |= {dim: False for dim in task.dims if dim not in sources}
    return {
        "task": task,
        "name": task.name,
        "upper": task.name.upper(),
        "mark": subject.mark,
        "notice": caller_notice(subject, _WIDTH),
        "nvcc": " ".join(("nvcc", subject.standard, "-O3 -arch=native", *subject.nvcc_flags)),
        "standard": subject.standard[-2:],
        "flags": subject.nvcc_flags,
        "sources": sources,
        "places": {argument.name: place for place, argument in enumerate(task.tensors)},
        "first_of_type": next((n for n, a in enumerate(task.tensors) if a.dtype is None), None),
        "pairs": _pairs(task),
        "numbers": [f"{'double' if f else 'int64_t'} {cpp_name(n)}" for n, f in kinds.items()],
        "call": [*(a.name for a in task.tensors), *kinds],
    }


def _pairs(task: KernelTask) -> list[tuple[str, str]]:
    """Every tensor that is written with every other one, once."""
    found: dict[frozenset[str], tuple[str, str]] = {}
    for one in (a for a in task.tensors if a.is_written):
        for other in (a for a in task.tensors if a is not one):
            found.setdefault(frozenset((one.name, other.name)), (one.name, other.name))
    return list(found.values())
