"""A Python package with a PyTorch operator: generated checks and plan, kernels as cubins."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from astra_tui.export.artefact import Files, Subject, rendered, template
from astra_tui.export.dependent import caller_notice
from astra_tui.export.header import journal_words, plain
from astra_tui.export.python_host import contract_words, python_plan
from astra_tui.model.compilation import CompiledKernel
from astra_tui.model.task import Argument, ArgumentRole, KernelTask
from astra_tui.model.task.dims import dim_sources

NAMESPACE = "astra"
"""Operators are called torch.ops.astra.NAME."""

_TEMPLATES = ("_operator", "_calls", "_ready", "_library", "_gpu", "_driver", "_host")

_WIDTH = 88


def package_name(task: KernelTask) -> str:
    """The name of the package, which is that of its folder."""
    return f"astra_{task.name}"


def torch_package(subject: Subject) -> Files:
    """The package's files, in a folder of its own."""
    task = subject.task
    mark = subject.mark(f"{task.name} for PyTorch", "#")
    words = torch_words(subject)
    files: dict[str, str | bytes] = {
        "__init__.py": rendered("init.py.jinja", words),
        "_contract.py": rendered("contract.py.jinja", {**words, **contract_words(task)}),
        "_plan.py": mark + python_plan(task, subject.plan),
        **{
            f"{name}.py": mark + template(f"{name}.py", attributes=subject.attributes)
            for name in _TEMPLATES
        },
        "kernel.cu": subject.winner.text,
        "manifest.json": json.dumps(_manifest(subject), indent=2) + "\n",
        **subject.headers,
    }
    for compilation in subject.compilations:
        files[f"{compilation.arch}.cubin"] = compilation.cubin
    return {f"{package_name(task)}/{name}": content for name, content in files.items()}


def torch_project(subject: Subject) -> Files:
    """The package, and what pip builds it with."""
    words = {**torch_words(subject), "framework": "", "prefix": ""}
    return {**torch_package(subject), "pyproject.toml": rendered("pyproject.toml.jinja", words)}


def _manifest(subject: Subject) -> dict[str, Any]:
    winner = subject.winner
    checked = subject.compilations[0]
    return {
        "task": winner.task,
        "task_hash": winner.task_hash,
        "session": winner.session,
        "team": winner.team,
        "candidate": winner.candidate,
        "verdict": winner.verdict,
        "journal": journal_words(winner.trust),
        "compiler": checked.compiler,
        "archs": [c.arch for c in subject.compilations],
        "checked_arch": checked.arch,
        "kernels": {k.expression: _signature(k) for k in checked.kernels},
    }


def _signature(kernel: CompiledKernel) -> dict[str, Any]:
    return {
        "symbol": kernel.symbol,
        "bytes": kernel.parameter_bytes,
        "parameters": [
            {
                "kind": p.kind,
                "offset": p.offset,
                "dtype": p.dtype.value if p.dtype and p.kind != "pointer" else "",
            }
            for p in kernel.parameters
        ],
    }


@dataclass(frozen=True)
class _Signature:
    """The parameters of an operator: tensors (outputs first where they are given), then numbers."""

    task: KernelTask
    into: bool

    @property
    def inputs(self) -> list[Argument]:
        return [a for a in self.task.tensors if a.is_read]

    @property
    def outputs(self) -> list[Argument]:
        return [a for a in self.task.tensors if a.role is ArgumentRole.OUT]

    @property
    def passed(self) -> list[str]:
        """Dimensions that no shape of an input gives."""
        sources = dim_sources(self.task, self.inputs)
        return [d for d in self.task.dims if d not in sources]

    @property
    def tensors(self) -> list[Argument]:
        return [*(self.outputs if self.into else ()), *self.inputs]

    @property
    def name(self) -> str:
        return f"{self.task.name}_out" if self.into else self.task.name

    @property
    def schema(self) -> str:
        parts = [
            f"Tensor{f'({letter}!)' if a.is_written else ''} {a.name}"
            for letter, a in zip("abcdefghijklmnopqrstuvwxyz", self.tensors, strict=False)
        ]
        parts += [f"{_type(scalar)} {scalar.name}" for scalar in self.task.scalars]
        parts += [f"SymInt {d}" for d in self.passed]
        if self.into or not self.outputs:
            return f"({', '.join(parts)}) -> ()"
        made = ", ".join("Tensor" for _ in self.outputs)
        return f"({', '.join(parts)}) -> {made if len(self.outputs) == 1 else f'({made})'}"

    @property
    def parameters(self) -> str:
        tensors = (f"{a.name}: torch.Tensor" for a in self.tensors)
        numbers = (f"{s.name}: {_type(s)}" for s in self.task.scalars)
        return ", ".join([*tensors, *numbers, *(f"{d}: int" for d in self.passed)])

    @property
    def returns(self) -> str:
        if self.into or not self.outputs:
            return "None"
        if len(self.outputs) == 1:
            return "torch.Tensor"
        return f"tuple[{', '.join('torch.Tensor' for _ in self.outputs)}]"

    @property
    def run(self) -> str:
        scalars = [a.name for a in self.task.scalars]
        values = ", ".join(map(_tuple, ([a.name for a in self.inputs], scalars, self.passed)))
        if self.into:
            return f"_operator.call_into({_tuple([a.name for a in self.outputs])}, {values})"
        return (
            f"return _operator.call({values}){self._one}"
            if self.outputs
            else (f"_operator.call({values})")
        )

    @property
    def fake(self) -> str:
        if self.into or not self.outputs:
            return "return None"
        given = f"{_dict([a.name for a in self.inputs])}, {_dict(self.passed)}"
        return f"return _operator.outputs_for({given}){self._one}"

    @property
    def _one(self) -> str:
        return "[0]" if len(self.outputs) == 1 else ""


def torch_words(subject: Subject) -> dict[str, Any]:
    """What the templates of a package say of its operator."""
    task = subject.task
    plain_call = _Signature(task, into=False)
    outputs = [a.name for a in plain_call.outputs]
    return {
        "task": task,
        "name": task.name,
        "upper": task.name.upper(),
        "namespace": NAMESPACE,
        "package": package_name(task),
        "title": "PyTorch",
        "mark": subject.mark,
        "notice": caller_notice(subject, _WIDTH),
        "summary": _docstring(task.summary),
        "operators": [plain_call, *([_Signature(task, into=True)] if outputs else [])],
        "abouts": [
            (a.name, _docstring(a.about or a.role.value))
            for a in (*plain_call.inputs, *task.scalars)
        ],
        "inputs": [*(a.name for a in (*plain_call.inputs, *task.scalars)), *plain_call.passed],
        "outputs": outputs,
        "result": f"{', '.join(outputs)} = " if outputs else "",
        "archs": [c.arch for c in subject.compilations],
    }


def _type(scalar: Argument) -> str:
    return "float" if scalar.dtype is None or scalar.dtype.is_float else "int"


def _docstring(text: str) -> str:
    return plain(text).replace('"', "'")


def _dict(names: list[str]) -> str:
    return "{" + ", ".join(f"{n!r}: {n}" for n in names) + "}"


def _tuple(names: list[str]) -> str:
    return f"({', '.join(names)},)" if names else "()"
