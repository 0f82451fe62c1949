"""A Python package with a PyTorch operator: generated checks and plan, kernels as cubins."""

from __future__ import annotations

import json
from typing import Any

from astra_tui.export.artefact import Files, Subject, template
from astra_tui.export.dependent import caller_notice
from astra_tui.export.header import comment, header_lines, journal_words, plain
from astra_tui.export.python_host import python_contract, python_plan
from astra_tui.model.compilation import CompiledKernel
from astra_tui.model.task import ArgumentRole, KernelTask
from astra_tui.model.task.dims import dim_sources

NAMESPACE = "astra"
"""Operators are called torch.ops.astra.NAME."""

_TEMPLATES = ("_operator", "_calls", "_ready", "_library", "_gpu", "_driver", "_host")

_IN = "    "
_WIDTH = 88
_SCHEMA_TYPES = {True: "float", False: "int"}
_PYTHON_TYPES = _SCHEMA_TYPES


def package_name(task: KernelTask) -> str:
    """The name of the package, which is that of its folder."""
    return f"astra_{task.name}"


def torch_package(subject: Subject) -> Files:
    """The package's files, in a folder of its own."""
    task = subject.task
    mark = comment(header_lines(subject.winner, f"{task.name} for PyTorch."), "#")
    files: dict[str, str | bytes] = {
        "__init__.py": mark + _init(subject),
        "_contract.py": mark + python_contract(task),
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


class _Signature:
    """The operator's parameters: tensors that are read, scalars, dimensions that are passed."""

    def __init__(self, task: KernelTask):
        self.inputs = [a for a in task.tensors if a.is_read]
        self.outputs = [a for a in task.tensors if a.role is ArgumentRole.OUT]
        self.scalars = list(task.scalars)
        sources = dim_sources(task, self.inputs)
        self.passed = [d for d in task.dims if d not in sources]

    def schema(self, *, into: bool) -> str:
        parts = []
        tensors = [*(self.outputs if into else ()), *self.inputs]
        for letter, argument in zip("abcdefghijklmnopqrstuvwxyz", tensors, strict=False):
            mutated = f"({letter}!)" if argument.is_written else ""
            parts.append(f"Tensor{mutated} {argument.name}")
        for scalar in self.scalars:
            parts.append(
                f"{_SCHEMA_TYPES[scalar.dtype is None or scalar.dtype.is_float]} {scalar.name}"
            )
        parts += [f"SymInt {d}" for d in self.passed]
        returns = "()" if into or not self.outputs else ", ".join("Tensor" for _ in self.outputs)
        if not into and len(self.outputs) > 1:
            returns = f"({returns})"
        return f"({', '.join(parts)}) -> {returns}"

    def parameters(self, *, into: bool) -> str:
        tensors = [*(self.outputs if into else ()), *self.inputs]
        parts = [f"{a.name}: torch.Tensor" for a in tensors]
        parts += [
            f"{s.name}: {_PYTHON_TYPES[s.dtype is None or s.dtype.is_float]}" for s in self.scalars
        ]
        return ", ".join([*parts, *(f"{d}: int" for d in self.passed)])

    def names(self, *, into: bool) -> str:
        tensors = [*(self.outputs if into else ()), *self.inputs]
        return ", ".join([*(a.name for a in (*tensors, *self.scalars)), *self.passed])

    @property
    def returns(self) -> str:
        if not self.outputs:
            return "None"
        if len(self.outputs) == 1:
            return "torch.Tensor"
        return f"tuple[{', '.join('torch.Tensor' for _ in self.outputs)}]"

    @property
    def values(self) -> str:
        """The arguments of `call`: inputs, numbers, passed dimensions."""
        inputs, scalars = [a.name for a in self.inputs], [a.name for a in self.scalars]
        return ", ".join(map(_tuple, (inputs, scalars, self.passed)))

    @property
    def passed_dict(self) -> str:
        return f"{_dict([a.name for a in self.inputs])}, {_dict(self.passed)}"


def _init(subject: Subject) -> str:
    task = subject.task
    notice = caller_notice(subject, _WIDTH)
    signature = _Signature(task)
    summary = _docstring(task.summary)
    lines = [
        f'"""{summary}.',
        "",
        f"`{task.name}` is the operator `torch.ops.{NAMESPACE}.{task.name}`, which torch.compile",
        "and CUDA graphs can hold. Outside the contract it calls what `set_fallback` was given.",
        "It has no derivative. The first call on a device loads the kernels, so make one before",
        "a graph is captured.",
        *(["", *notice] if notice else ()),
        '"""',
        "",
        "from __future__ import annotations",
        "",
        "import torch",
        "",
        "from . import _library, _operator",
        "from ._operator import calls, refusal, set_fallback",
        "",
        f"__all__ = [{task.name!r}, 'calls', 'refusal', 'set_fallback']",
        "",
        *_operator(task.name, signature, into=False),
    ]
    if signature.outputs:
        lines += _operator(f"{task.name}_out", signature, into=True)
    lines += _function(task, signature)
    return "\n".join(lines) + "\n"


def _operator(name: str, signature: _Signature, *, into: bool) -> list[str]:
    """The definition of one operator: its kernel, and its fake kernel, which only allocates."""
    returns = "None" if into else signature.returns
    given = f"({signature.parameters(into=into)}) -> {returns}:"
    one = "[0]" if len(signature.outputs) == 1 else ""
    if into:
        outputs = _tuple([a.name for a in signature.outputs])
        run = f"_operator.call_into({outputs}, {signature.values})"
        fake = "return None"
    elif not signature.outputs:
        run, fake = f"_operator.call({signature.values})", "return None"
    else:
        run = f"return _operator.call({signature.values}){one}"
        fake = f"return _operator.outputs_for({signature.passed_dict}){one}"
    return [
        "",
        f"def _{name}_kernel{given}",
        f"{_IN}{run}",
        "",
        "",
        f"def _{name}_fake{given}",
        f"{_IN}{fake}",
        "",
        "",
        f"_{name} = _library.define(",
        f"{_IN}{NAMESPACE!r},",
        f"{_IN}{name!r},",
        f"{_IN}{signature.schema(into=into)!r},",
        f"{_IN}_{name}_kernel,",
        f"{_IN}_{name}_fake,",
        ")",
        "",
    ]


def _function(task: KernelTask, signature: _Signature) -> list[str]:
    """The function that users call."""
    about = [
        f"{a.name}: {_docstring(a.about or a.role.value)}"
        for a in (*signature.inputs, *signature.scalars)
    ]
    out = ""
    body = [f"{_IN}return _{task.name}({signature.names(into=False)})"]
    if signature.outputs:
        one = len(signature.outputs) == 1
        out = f", out: {signature.returns} | None = None"
        given = "out" if one else "*out"
        into = signature.names(into=False)
        body = [
            f"{_IN}if out is None:",
            f"{_IN}    return _{task.name}({signature.names(into=False)})",
            f"{_IN}_{task.name}_out({given}, {into})",
            f"{_IN}return out",
        ]
        names = ", ".join(a.name for a in signature.outputs)
        about.append(f"out: {names}, where given: written and returned")
    return [
        "",
        f"def {task.name}({signature.parameters(into=False)}{out}) -> {signature.returns}:",
        f'{_IN}"""{_docstring(task.summary)}.',
        "",
        *(f"{_IN}{line}" for line in about),
        f'{_IN}"""',
        *body,
    ]


def _docstring(text: str) -> str:
    return plain(text).replace('"', "'")


def _dict(names: list[str]) -> str:
    return "{" + ", ".join(f"{n!r}: {n}" for n in names) + "}"


def _tuple(names: list[str]) -> str:
    return f"({', '.join(names)},)" if names else "()"
