"""A winner as an adapter for a framework: the PyTorch package, and a hook that is the framework's.

The package brings the guard, the counters and the off switch. What is added here is one thin file
a framework and operator, pins that are checked at import, the cases of a proof, a README and the
files that build it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import astra_tui
from astra_tui.export.artefact import Files, Subject, rendered, template
from astra_tui.export.header import comment, header_lines, plain
from astra_tui.export.host import expected
from astra_tui.export.torch_package import package_name, torch_package
from astra_tui.lab.check.inputs import scalars_of
from astra_tui.lab.check.layout import TensorLayout, layouts_of, plan_layouts
from astra_tui.lab.check.suite import build_suite
from astra_tui.model.author import AuthorKind
from astra_tui.model.check import Case
from astra_tui.model.digest import short
from astra_tui.model.dtypes import DType
from astra_tui.model.errors import UserError
from astra_tui.model.export import ExportStep, Framework
from astra_tui.model.launch.scope import Bindings
from astra_tui.model.state import SessionState
from astra_tui.model.task import KernelTask, Workload

ARCHS = ("sm_80", "sm_89", "sm_90", "sm_100")
"""For which an adapter carries machine code where the source compiles for them."""

LARGEST = 1 << 22
"""Elements of the largest tensor in a case of the proof."""

MOST_SHAPES = 220
MORE_ROWS = (3, 32, 128)
"""Rows of a case of the proof, in addition to those that the checks try."""

VECTOR_BYTES = 16
"""What the operators of frameworks load at once."""

OUTSIDE_EVERY = 12
"""One in so many shapes is also called outside of the guard."""


@dataclass(frozen=True)
class Target:
    """How adapters for a framework are put together."""

    title: str
    module: str
    """The module of the package that hooks it in; its template is named after it and the task."""
    pinned: tuple[str, ...]
    apis: Mapping[str, str]
    """The function or class that an adapter stands behind, by task."""
    mechanism: str
    use: str
    """Lines of Python that put it to use."""
    shared: tuple[str, ...] = ()
    """Templates of every operator."""
    tried: str = ""
    """What of it was never run, where that is known."""
    any_alignment: bool = True
    """Whether its own operator takes tensors whose base or rows lie off the alignment of vectors.
    Where it does not, it ends the process's CUDA context, and no proof calls it so."""
    own: str = ""
    """Whose operators calls outside the guard get, where that is not the title."""
    plugins: str = ""
    """The group of entry points that the framework loads in each of its processes."""
    prefix: str = ""
    """The folder in which the package's files lie, where they have a place of their own."""


_EAGER = {
    "silu_and_mul": "torch.ops.astra.silu_and_mul",
    "fused_add_rmsnorm": "torch.ops.astra.fused_add_rmsnorm",
}
_NOT_ON_A_GPU = (
    "Not run on a GPU: it was tried on tensors of the CPU, against the registry of the pinned "
    "release."
)

TARGETS: Mapping[Framework, Target] = {
    Framework.TORCH: Target(
        title="PyTorch",
        module="eager",
        pinned=("torch 2.11 to 2.19",),
        apis=_EAGER,
        mechanism="an operator of torch.library; outside the guard it runs PyTorch's own operators",
        use="{package}.{task}({arguments})  # or torch.ops.astra.{task}",
        shared=("_eager",),
    ),
    Framework.FLASHINFER: Target(
        title="FlashInfer",
        module="flashinfer",
        pinned=("flashinfer-python 0.7.2.post1",),
        apis={
            "silu_and_mul": "flashinfer.activation.silu_and_mul",
            "fused_add_rmsnorm": "flashinfer.norm.fused_add_rmsnorm",
        },
        mechanism=(
            "FlashInfer's Trace Apply, under a cover that keeps `eps`, `out` and more than two "
            "axes, which Trace Apply does not hand on"
        ),
        use="{api}({arguments})  # as before",
        shared=("_flashinfer",),
        any_alignment=False,
    ),
    Framework.SGLANG: Target(
        title="SGLang",
        module="sglang",
        pinned=("sglang 0.5.23",),
        apis={
            "silu_and_mul": "sglang.kernels.ops.activation.SiluAndMulOp",
            "fused_add_rmsnorm": "sglang.srt.layers.layernorm.RMSNorm",
        },
        mechanism="the backend `plugin` of SGLang's fused operators, ahead of their own",
        use="# a model that is made now uses it: layers keep what they chose at their first call",
        plugins="sglang.srt.plugins",
        shared=("_sglang",),
        any_alignment=False,
        tried=_NOT_ON_A_GPU,
    ),
    Framework.VLLM: Target(
        title="vLLM",
        module="vllm",
        pinned=("vllm 0.33.0",),
        apis={
            "silu_and_mul": "vllm.model_executor.layers.activation.SiluAndMul",
            "fused_add_rmsnorm": "vllm.ir.ops.fused_add_rms_norm",
        },
        mechanism=(
            "vLLM's registries: the provider `astra` of an operator of its IR, first in its "
            "priority, or an out-of-tree class of a layer"
        ),
        use="# a model that is made now uses it",
        plugins="vllm.general_plugins",
        tried=_NOT_ON_A_GPU,
    ),
    Framework.HF: Target(
        title="Hugging Face kernels",
        module="eager",
        pinned=("kernels 0.17.2", "torch 2.11 to 2.19"),
        apis=_EAGER,
        mechanism="a build variant without an architecture, `torch-cuda`, that `kernels` loads",
        use="{package}.{task}({arguments})",
        own="PyTorch",
        shared=("_eager",),
        prefix="build/torch-cuda",
    ),
}


@dataclass(frozen=True)
class Adapter:
    """What is delivered: a compiled winner for a framework."""

    framework: Framework
    subject: Subject
    measured: str
    """The architecture on which the session timed the winner, or ""."""
    decisions: tuple[str, ...]
    """What an engineer decided on the way to it."""

    @property
    def target(self) -> Target:
        """How it is put together."""
        return TARGETS[self.framework]

    @property
    def task(self) -> KernelTask:
        """The operator."""
        return self.subject.task

    @property
    def api(self) -> str:
        """What it stands behind."""
        return self.target.apis[self.task.name]

    @property
    def switch(self) -> str:
        """The environment variable that turns it off."""
        return f"ASTRA_{self.task.name.upper()}"

    @property
    def archs(self) -> tuple[str, ...]:
        """For which it carries machine code."""
        return tuple(c.arch for c in self.subject.compilations)

    @cached_property
    def package(self) -> Files:
        """The package's files, by their names in its folder."""
        package = package_name(self.task)
        plain_package = torch_package(self.subject)
        return {
            **{name.removeprefix(f"{package}/"): text for name, text in plain_package.items()},
            **self._added(),
        }

    def files(self, steps: tuple[ExportStep, ...] = ()) -> Files:
        """All files; the README says how `steps` ended."""
        prefix = self.target.prefix or package_name(self.task)
        words = self._words(steps)
        return {
            **{f"{prefix}/{name}": content for name, content in self.package.items()},
            "README.md": rendered("adapter_readme.md.jinja", words),
            "pyproject.toml": rendered("pyproject.toml.jinja", words),
        }

    def _added(self) -> dict[str, str | bytes]:
        target, task = self.target, self.task
        about = f"{task.name} for {target.title}."
        mark = comment(header_lines(self.subject.winner, about), "#")
        shared = {f"{name}.py": mark + template(f"{name}.py") for name in _ALWAYS}
        shared |= {f"{name}.py": mark + template(f"{name}.py") for name in target.shared}
        shared[f"{target.module}.py"] = mark + template(f"{target.module}_{task.name}.py")
        found: dict[str, str | bytes] = {**shared}
        found["proof.json"] = json.dumps(self._proof(), indent=1) + "\n"
        if self.framework is Framework.HF:
            found["metadata.json"] = json.dumps(self._metadata(), indent=2) + "\n"
        return found

    def _proof(self) -> dict[str, Any]:
        task = self.task
        works = [_case(workload) for workload in task.workloads]
        cases = list(proof_cases(self.subject))
        if not self.target.any_alignment:
            cases = [c for c in cases if all(map(_on_vectors, c["tensors"].values()))]
        shapes = [c["tensors"][name][1] for c in (*cases,) for name in _results(task)]
        return {
            "module": self.target.module,
            "widths": sorted({shape[-1] for shape in shapes if shape} | _widths(task, works)),
            "tolerances": {
                d.value: [task.tolerances[d].atol, task.tolerances[d].rtol] for d in task.dtypes
            },
            "cases": cases,
            "workloads": [_described(task, case, layouts_of(task, case)) for case in works],
        }

    def _metadata(self) -> dict[str, Any]:
        name = package_name(self.task)
        archs = [f"{a[3:].rstrip('a')[:-1]}.{a[3:].rstrip('a')[-1]}" for a in self.archs]
        return {
            "id": f"_{name}_{short(self.subject.winner.candidate)}",
            "name": name.replace("_", "-"),
            "version": 1,
            "license": "Apache-2.0",
            "python-depends": [],
            "backend": {"type": "cuda", "archs": archs},
        }

    def _example(self) -> dict[str, str]:
        """Arguments of a call at the first workload's sizes, as Python that makes each."""
        case = _case(self.task.workloads[0])
        layouts = layouts_of(self.task, case)
        made = {
            a.name: f"torch.randn({layouts[a.name].shape}, dtype=torch."
            f'{layouts[a.name].dtype.value}, device="cuda")'
            for a in self.task.tensors
            if a.is_read
        }
        return made | {a.name: str(a.choices[0]) for a in self.task.scalars}

    def _words(self, steps: tuple[ExportStep, ...]) -> dict[str, Any]:
        target, winner = self.target, self.subject.winner
        package, example = package_name(self.task), self._example()
        return {
            "adapter": self,
            "target": target,
            "task": self.task,
            "summary": plain(self.task.summary),
            "package": package,
            "use": target.use.format(
                package=package, task=self.task.name, api=self.api, arguments=", ".join(example)
            ),
            "example": example,
            "widths": sorted(_widths(self.task, [_case(w) for w in self.task.workloads[:3]])),
            "own": target.own or target.title,
            "plugins": target.plugins,
            "accepts": self.task.accepts_text,
            "winner": winner,
            "steps": steps,
            "version": astra_tui.__version__,
            "hf": self.framework is Framework.HF,
            "framework": self.framework.value,
            "title": target.title,
            "prefix": target.prefix,
        }


_ALWAYS = ("_pins", "prove")


def adapter_of(subject: Subject, framework: Framework, state: SessionState) -> Adapter:
    """What a session's winner becomes for a framework.

    Raises UserError for an operator that has no hook there.
    """
    target, name = TARGETS[framework], subject.task.name
    if name not in target.apis:
        raise UserError(
            f"{target.title} has no hook for {name} that is known here",
            file=str(subject.task.file),
            hint=f"it has for: {', '.join(target.apis)}; or: astra-tui export --to torch",
        )
    winner = subject.winner
    return Adapter(
        framework,
        subject,
        _measured(state) if winner.speedup is not None else "",
        tuple(
            f"{d.gate.value} of round {state.questions[d.question].round}: {d.status.value} by "
            f"{d.by.describe()}{f' ({plain(d.reason)})' if d.reason else ''}"
            for d in state.decisions.values()
            if d.by.kind is AuthorKind.ENGINEER and d.question in state.questions
        ),
    )


def _measured(state: SessionState) -> str:
    gpu = state.device.gpu if state.device is not None else None
    if gpu is None or gpu.compute_capability is None:
        return ""
    return "sm_{}{}".format(*gpu.compute_capability)


def proof_cases(subject: Subject) -> Iterator[dict[str, Any]]:
    """Calls for a proof, each with whether contract and plan admit it, and its launches.

    First distinct shapes of every element type, then the suite's unusual layouts, then calls
    outside.
    """
    task = subject.task
    kernels = {kernel.expression for kernel in subject.compilations[0].kernels}
    seen = set()
    for case in (*_shapes(task), *_unusual(task), *_outside(task)):
        layouts = layouts_of(task, case)
        key = json.dumps([_tensors(layouts), case.scalars], sort_keys=True)
        elements = max(layout.elements for layout in layouts.values())
        if key in seen or not 0 < elements <= LARGEST:
            continue
        seen.add(key)
        launches = _launches(subject, case, layouts, kernels)
        if launches is not None:
            found = _described(task, case, layouts)
            yield {**found, "inside": launches > 0, "launches": launches}
    for number, case in enumerate(_shapes(task)):
        if number % OUTSIDE_EVERY == 0:
            found = _described(task, case, layouts_of(task, case))
            if max(math.prod(t[1]) for t in found["tensors"].values()) <= LARGEST:
                yield from _outside_of(found, [a.name for a in task.tensors if a.is_read])


def _on_vectors(tensor: Sequence[Any]) -> bool:
    """Whether its memory starts with it, and rows lie apart by multiples of their widest vector."""
    dtype, shape, strides, offset = tensor
    if offset or not shape or strides[-1] != 1:
        return not offset
    vector = math.gcd(VECTOR_BYTES // DType(dtype).size, shape[-1])
    return not any(stride % vector for stride in strides[:-1])


def _outside_of(case: dict[str, Any], read: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The call with a type that is not the contract's, and with each of its inputs transposed."""
    outside = {"inside": False, "launches": 0}
    tensors = {n: ["float64", *rest] for n, (_, *rest) in case["tensors"].items()}
    yield {**case, **outside, "name": f"float64 {case['name']}", "tensors": tensors}
    for name in read:
        dtype, shape, _, offset = case["tensors"][name]
        if len(shape) == 2 and min(shape) > 1:
            turned = {**case["tensors"], name: [dtype, shape, [1, shape[0]], offset]}
            named = f"{name} transposed, {case['name']}"
            yield {**case, **outside, "name": named, "tensors": turned}


def _shapes(task: KernelTask) -> Iterator[Case]:
    """Shapes at the sizes that the checks try, spread over all of them."""
    names = tuple(task.dims)
    more = {task.rows: MORE_ROWS}
    sizes = [
        sorted({*filter(None, task.dims[n].sizes), task.dims[n].typical, *more.get(n, ())})
        for n in names
    ]
    every = list(product(*sizes))
    apart = max(1, -(-len(every) * len(task.dtypes) // MOST_SHAPES))
    for number, dtype in enumerate(task.dtypes):
        for shape in every[number % apart :: apart]:
            dims = dict(zip(names, shape, strict=True))
            text = " ".join(f"{n}={s}" for n, s in dims.items())
            yield Case(f"{dtype.value} {text}", "", dtype, dims)


def _unusual(task: KernelTask) -> Iterator[Case]:
    """The suite's cases whose tensors lie off their alignment or have gaps between rows."""
    for case in build_suite(task):
        if (case.offsets or case.row_padding) and not case.outside_contract:
            yield case


def _outside(task: KernelTask) -> Iterator[Case]:
    """The suite's cases outside of the contract."""
    yield from (case for case in build_suite(task) if case.outside_contract)


def _launches(
    subject: Subject, case: Case, layouts: Mapping[str, TensorLayout], kernels: set[str]
) -> int | None:
    """How many launches contract and plan give a call; 0 outside, None where it is not known."""
    answer = expected(
        subject,
        Bindings(case.dtype, case.dims, plan_layouts(layouts), scalars_of(subject.task, case)),
    )
    if answer is None:
        return None
    if answer.launches is None or any(launch[0] not in kernels for launch in answer.launches):
        return 0
    return len(answer.launches)


def _described(task: KernelTask, case: Case, layouts: Mapping[str, TensorLayout]) -> dict[str, Any]:
    return {
        "name": case.name,
        "dtype": case.dtype.value,
        "tensors": _tensors(layouts),
        "scalars": scalars_of(task, case),
    }


def _tensors(layouts: Mapping[str, TensorLayout]) -> dict[str, list[Any]]:
    return {
        name: [layout.dtype.value, list(layout.shape), list(layout.strides), layout.offset]
        for name, layout in layouts.items()
    }


def _case(workload: Workload) -> Case:
    return Case(f"workload {workload.name}", "", workload.dtype, dict(workload.dims))


def _results(task: KernelTask) -> tuple[str, ...]:
    return tuple(a.name for a in task.tensors if a.is_written)


def _widths(task: KernelTask, cases: list[Case]) -> set[int]:
    """The last axes of what is written."""
    return {layouts_of(task, c)[name].shape[-1] for c in cases for name in _results(task)}
