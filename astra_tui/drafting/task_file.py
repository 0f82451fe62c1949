"""The texts of a draft: task.toml, reference.py and baseline.cu."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from astra_tui.drafting.answers import Answers, ArgumentAnswer, element_type, toml_text, typed
from astra_tui.drafting.fitting import Contract
from astra_tui.drafting.tensors import TensorDraft, product
from astra_tui.model.dtypes import TENSOR_ONLY, DType
from astra_tui.model.errors import UserError, nearest
from astra_tui.model.task import Acceptance, ArgumentRole

_ROW_SIZES = (0, 1, 2, 7, 19, 83)
_SIZES = (1, 2, 7, 32, 33, 111, 256, 613, 1024)
_MANY_SIZES = (1, 2, 7, 8, 31, 64, 100)
"""For each of three dimensions or more, so that the product stays small."""
_MULTIPLES = (1, 2, 3, 7, 32, 33)
_WORKLOAD = {1: 1 << 20, 2: 1024, 3: 128}
_LEAST_SIZES = 3
"""Fewer of the usual sizes that keep the contract, and others are looked for."""


@dataclass(frozen=True)
class ScalarDraft:
    """A number that is passed by value; `choices` are the values to try."""

    name: str
    dtype: DType
    choices: tuple[float, ...]


@dataclass(frozen=True)
class TaskDraft:
    """Everything that task.toml and reference.py say."""

    name: str
    origin: str
    dtypes: tuple[DType, ...]
    dims: dict[str, int | None]
    """The dimensions, with the size that the source's own host code uses, if it says one."""
    tensors: tuple[TensorDraft, ...]
    scalars: tuple[ScalarDraft, ...]
    accepts: tuple[str, ...]
    """Conditions beyond the sizes being positive."""
    summary: str = "say in one line what the operator computes"
    flops: str = ""
    tolerances: Mapping[DType, tuple[float, float]] = field(default_factory=dict)
    """atol and rtol where they are not the common choice for a type."""
    tolerance_source: str = ""
    fixed: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """The values to try of dimensions that are template arguments."""
    sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """The sizes to try where the engineer says them."""
    workloads: tuple[Mapping[str, int], ...] = ()
    """The workloads where the engineer says them."""
    accepted: tuple[Acceptance, ...] = ()
    """Findings and conditions that the engineer allows."""
    rows_answer: str | None = None
    """What the engineer says of `rows`, None for nothing."""

    @property
    def written(self) -> tuple[TensorDraft, ...]:
        """The tensors that the operator writes."""
        return tuple(t for t in self.tensors if t.role.is_output)

    @property
    def rows(self) -> str:
        """The dimension that could be permuted, "" when there is none.

        It is the first size of every tensor that is written, and no other size anywhere.
        """
        if self.rows_answer is not None:
            return self.rows_answer
        firsts = {t.sizes[0] for t in self.written}
        name = firsts.pop() if len(firsts) == 1 else ""
        if name not in self.dims or len(self.dims) < 2 or not all(t.is_read for t in self.tensors):
            return ""
        if any(t.choices == name or re.search(rf"\b{name}\b", t.values) for t in self.tensors):
            return ""
        others = " ".join(s for t in self.tensors for s in t.sizes[t.sizes[0] == name :])
        return "" if re.search(rf"\b{name}\b", others) else name


# -- what the engineer answers -------------------------------------------------------------------


def answered_tensors(tensors: tuple[TensorDraft, ...], answers: Answers) -> tuple[TensorDraft, ...]:
    """The tensors with what `[args.NAME]` says of them."""
    return tuple(
        _answered(t, answers.args[t.name]) if t.name in answers.args else t for t in tensors
    )


def _answered(tensor: TensorDraft, answer: ArgumentAnswer) -> TensorDraft:
    changed: dict[str, Any] = {}
    if answer.role is not None:
        changed |= {"role": answer.role, "is_role_read": True}
    if answer.shape:
        changed |= {"sizes": answer.shape, "is_read": True}
    if answer.dtype:
        changed["dtype"] = None if answer.dtype == "T" else _known_dtype(answer.dtype, tensor.name)
    if answer.values:
        changed["values"] = toml_text(answer.values)
    if answer.limit is not None:
        changed["limit"] = answer.limit
    return replace(tensor, **changed)


def _known_dtype(text: str, name: str) -> DType:
    dtype = element_type(text)
    if dtype is None:
        raise UserError(
            f"args.{name}.dtype: there is no element type {text!r}",
            hint=nearest(text, [d.value for d in DType]),
        )
    return dtype


def answered(task: TaskDraft, answers: Answers) -> TaskDraft:
    """The draft with what the answers say of task.toml. Raises UserError for a name it lacks."""
    _require_known(
        "args", answers.args, [*(t.name for t in task.tensors), *(s.name for s in task.scalars)]
    )
    shown = " ".join(size for answer in answers.args.values() for size in answer.shape)
    added_dims = [n for n in answers.dims if n not in task.dims and re.search(rf"\b{n}\b", shown)]
    dims = {**task.dims, **dict.fromkeys(added_dims)}
    _require_known("dims", answers.dims, dims)
    scalars = tuple(
        replace(s, choices=answers.args[s.name].choices)
        if s.name in answers.args and answers.args[s.name].choices
        else s
        for s in task.scalars
    )
    tensors = answered_tensors(task.tensors, answers)
    shaped = {t.name: len(t.sizes) for t in tensors if t.name in answers.args}
    kept = tuple(a for a in task.accepts if not _is_within_a_row(a, shaped))
    added = tuple(a for a in answers.contract.accepts if a not in kept)
    tolerances = {dtype: (t.atol, t.rtol) for dtype, t in answers.tolerance.items()}
    sources = dict.fromkeys(t.source for t in answers.tolerance.values() if t.source)
    return replace(
        task,
        dims=dims,
        tensors=tensors,
        scalars=scalars,
        accepts=(*kept, *added),
        sizes={**task.sizes, **{n: d.sizes for n, d in answers.dims.items()}},
        tolerances={**task.tolerances, **tolerances},
        tolerance_source="; ".join(sources) or task.tolerance_source,
        workloads=tuple(w.dims for w in answers.workloads),
        accepted=answers.accept,
        rows_answer=answers.rows,
    )


def _is_within_a_row(condition: str, ranks: Mapping[str, int]) -> bool:
    """Whether a condition is on the distance of elements of a row, by these numbers of axes."""
    found = re.findall(r"stride\((\w+), (\d+)\)", condition)
    return any(int(axis) >= ranks[name] - 1 for name, axis in found if name in ranks)


def without_unused_dims(task: TaskDraft, text: str, answers: Answers) -> TaskDraft:
    """The draft without dimensions that neither it, the launch and the reference (`text`), nor an
    answer names: an answer took the place of what they were read for.
    """
    parts = (*task.accepts, *(part for t in task.tensors for part in (*t.sizes, t.values)))
    named = set(re.findall(r"[A-Za-z_]\w*", " ".join((text, *parts))))
    named |= {*answers.dims, *(name for w in answers.workloads for name in w.dims)}
    dims = {name: value for name, value in task.dims.items() if name in named}
    return replace(task, dims=dims or task.dims)


def without_fixed_scalars(task: TaskDraft, text: str, answers: Answers) -> TaskDraft:
    """The draft without scalars for which the plan passes an answer, unless `text`, what the plan
    passes and the reference, names them: those have the one value that is passed.
    """
    named = set(re.findall(r"[A-Za-z_]\w*", text))
    kept = []
    for scalar in task.scalars:
        passed = answers.plan.args.get(scalar.name)
        if passed is not None and scalar.name not in answers.args:
            if scalar.name not in named:
                continue
            value = typed(passed)
            if isinstance(value, bool | int | float):
                scalar = replace(scalar, choices=(value,))
        kept.append(scalar)
    return replace(task, scalars=tuple(kept))


def _require_known(table: str, given: Mapping[str, object], known: Iterable[str]) -> None:
    for name in given:
        if name not in known:
            raise UserError(f"the draft has no {table}.{name} to answer", hint=nearest(name, known))


# -- task.toml -------------------------------------------------------------------------------------


def task_toml(task: TaskDraft) -> str:
    """The text of task.toml; what the source does not say is marked `confirm`."""
    return "\n".join(
        [*_head(task), *_dims(task), *_tensors(task), *_scalars(task), *_judgement(task)]
    ) + "\n"  # fmt: skip


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _listed(texts: Sequence[str]) -> str:
    return f"[{', '.join(map(_quoted, texts))}]"


def _head(task: TaskDraft) -> Iterator[str]:
    yield f"name = {_quoted(task.name)}"
    yield f"summary = {_quoted(task.summary)}"
    yield f"origin = {_quoted(task.origin)}"
    yield f"dtypes = {_listed([d.value for d in task.dtypes])}"
    if task.rows:
        yield f"rows = {_quoted(task.rows)}  # confirm: no row depends on another"


def _dims(task: TaskDraft) -> Iterator[str]:
    contract = _contract(task)
    typical = _typical(task, contract)
    for name in task.dims:
        yield f"\n[dims.{name}]"
        yield 'about = ""'
        yield f"typical = {typical[name]}"
        yield f"sizes = {list(_sizes_within(name, task, contract, typical))}"


def _contract(task: TaskDraft) -> Contract:
    strides = {t.name: t.sizes for t in task.tensors}

    def without_gap(call: re.Match[str]) -> str:
        sizes = strides.get(call[1], ())[int(call[2]) + 1 :]
        return f"({product(sizes)})" if sizes else call[0]

    stated = (re.sub(r"stride\((\w+), (\d+)\)", without_gap, text) for text in task.accepts)
    conditions = (*_positive(task), *stated)
    return Contract.of(conditions, tuple(task.dims), {**task.fixed, **task.sizes}, task.dtypes)


def _typical(task: TaskDraft, contract: Contract) -> dict[str, int]:
    """Sizes near 128, or less of many dimensions, that keep the contract together."""
    usual = 128 if len(task.dims) < 3 else 32
    wished = {}
    for name in task.dims:
        near = 128 if name in task.fixed else usual
        sizes = _usual_sizes(name, task)
        wished[name] = 16 if name == task.rows else min(sizes, key=lambda s: abs(s - near))
    return contract.fitted(wished)


def _sizes_within(
    name: str, task: TaskDraft, contract: Contract, typical: Mapping[str, int]
) -> tuple[int, ...]:
    """Sizes to try of one dimension: those that keep the contract, the others as usual."""
    usual = _usual_sizes(name, task)
    if name in task.sizes:
        return usual
    found = [s for s in usual if not contract.broken({**typical, name: s})]
    if len(found) < min(_LEAST_SIZES, len(usual)):
        near = (contract.fitted({**typical, name: s})[name] for s in usual)
        more = {s for s in near if not contract.broken({**typical, name: s})}
        found = sorted({*found, *more, typical[name]})
    return tuple(found)


def _usual_sizes(name: str, task: TaskDraft) -> tuple[int, ...]:
    """Sizes to try: tiny and odd ones, or multiples where the contract asks for them."""
    if name in task.sizes or name in task.fixed:
        return task.sizes.get(name) or task.fixed[name]
    for condition in task.accepts:
        multiple = re.fullmatch(rf"\(?{name}\)? % (\d+) == 0", condition)
        if multiple:
            return tuple(int(multiple[1]) * factor for factor in _MULTIPLES)
    usual = _SIZES if len(task.dims) < 3 else _MANY_SIZES
    return _ROW_SIZES if name == task.rows else usual


def _tensors(task: TaskDraft) -> Iterator[str]:
    for tensor in task.tensors:
        yield f"\n[args.{tensor.name}]"
        doubt = "confirm" if tensor.is_role_read else "a guess"
        yield f'role = "{tensor.role.value}"  # {doubt}'
        if tensor.dtype is not None:
            yield f'dtype = "{tensor.dtype.value}"'
        doubt = "confirm" if tensor.is_read else "a guess: no index in the kernel shows it"
        yield f"shape = {_listed(tensor.sizes)}  # {doubt}"
        if tensor.strided:
            yield "strided = true"
        if tensor.is_stable:
            yield "stable = true  # confirm"
        if tensor.limit is not None:
            yield f"limit = {tensor.limit}  # confirm"
        if tensor.values:
            yield f"values = {tensor.values}  # confirm"
        elif (
            tensor.dtype is not None
            and not tensor.dtype.is_float
            and tensor.role is not ArgumentRole.OUT
        ):
            high = highest_value(tensor)
            yield f'values = {{ kind = "integers", low = 0, high = {high} }}  # confirm'


def highest_value(tensor: TensorDraft) -> str:
    """The largest whole number that the draft puts into a tensor, as task.toml writes it."""
    if tensor.choices.isdecimal():
        return str(int(tensor.choices) - 1)
    if tensor.choices:
        return _quoted(f"{_factor((tensor.choices,))} - 1")
    if tensor.dtype is DType.UINT8 and not tensor.choices:
        return "255"  # Bytes that choose nothing are data of any form, such as packed numbers.
    return "1" if tensor.dtype is DType.BOOL else "100"


def _scalars(task: TaskDraft) -> Iterator[str]:
    for scalar in task.scalars:
        yield f"\n[args.{scalar.name}]"
        yield 'role = "scalar"'
        yield f'dtype = "{scalar.dtype.value}"'
        yield f"choices = [{', '.join(map(repr, scalar.choices))}]  # confirm"


def _positive(task: TaskDraft) -> list[str]:
    return [f"{name} >= {0 if _may_be_zero(name, task) else 1}" for name in task.dims]


def _judgement(task: TaskDraft) -> Iterator[str]:
    yield f"\n[contract]\naccepts = {_listed([*_positive(task), *task.accepts])}"
    judged = [*_written_floats(task), *(d for d in task.tolerances if not d.is_float)]
    if not judged:
        yield "\n[tolerance]  # whole numbers have to be equal, unless an atol is given"
    for dtype in judged:
        atol, rtol = task.tolerances.get(dtype) or _usual_tolerance(dtype)
        source = task.tolerance_source if dtype in task.tolerances else _usual_source(dtype)
        yield f"\n[tolerance.{dtype.value}]"
        yield f"atol = {atol}"
        if dtype.is_float:
            yield f"rtol = {rtol}"
        yield f"source = {_quoted(source + '; confirm')}"
    yield "\n[cost]"
    yield f'bytes = "{_bytes(task)}"'
    largest = max((t.sizes for t in task.tensors), key=len, default=("1",))
    yield f'flops = "{task.flops or product(largest)}"  # confirm; only the roofline uses it'
    for dims in task.workloads:
        yield f"\n[[workloads]]\ndims = {toml_text(dims)}"
    if not task.workloads:
        yield "\n[[workloads]]"
        yield f"dims = {{ {', '.join(_workload(task))} }}  # confirm"
    for ruling in task.accepted:
        yield "\n[[accept]]"
        for name, value in msgspec.to_builtins(ruling).items():
            yield f"{name} = {_quoted(value)}"


def _usual_tolerance(dtype: DType) -> tuple[float, float]:
    """The common bounds; kernels for types of 16 bits round to them between their steps."""
    atol, rtol, _ = dtype.common_tolerance
    return atol, max(rtol, 2.0 ** (1 - dtype.mantissa_bits)) if dtype.size == 2 else rtol


def _usual_source(dtype: DType) -> str:
    return "four roundings to the type" if dtype.size == 2 else "a common choice"


def _may_be_zero(name: str, task: TaskDraft) -> bool:
    return name == task.rows or f"{name} == 0" in task.accepts or 0 in task.sizes.get(name, ())


def _written_floats(task: TaskDraft) -> list[DType]:
    found: dict[DType, None] = {}
    for tensor in task.written:
        for dtype in (tensor.dtype,) if tensor.dtype is not None else task.dtypes:
            if dtype.is_float:
                found[dtype] = None
    return list(found)


def _factor(sizes: Sequence[str]) -> str:
    text = product(sizes)
    return text if len(sizes) > 1 or text.isdecimal() or text.isidentifier() else f"({text})"


def _bytes(task: TaskDraft) -> str:
    """Every input read once and every output written once."""
    parts = []
    for tensor in task.tensors:
        size = f"* sizeof({tensor.dtype.value if tensor.dtype else 'T'})"
        if tensor.dtype in TENSOR_ONLY:
            size = f"// {tensor.dtype.per_item}"
        times = "2 * " if tensor.role is ArgumentRole.INOUT else ""
        parts.append(f"{times}{_factor(tensor.sizes)} {size}")
    return " + ".join(parts) or "0"


def _workload(task: TaskDraft) -> Iterator[str]:
    usual = _WORKLOAD.get(len(task.dims), 32)
    wished = {}
    for name, value in task.dims.items():
        if name in task.sizes:
            wished[name] = max(task.sizes[name])
            continue
        if name in task.fixed:
            wished[name] = task.fixed[name][min(1, len(task.fixed[name]) - 1)]
            continue
        least = max(_usual_sizes(name, task)[0], 1)
        wished[name] = value if value is not None else max(usual // least, 1) * least
    for name, size in _contract(task).fitted(wished).items():
        yield f"{name} = {size}"


# -- reference.py ----------------------------------------------------------------------------------

_REFERENCE = '''\
"""Float64 reference of {name}. It decides what is right: keep it simple."""

import torch


def reference(
{arguments}
) -> dict[str, torch.Tensor]:
    """Floating-point tensors arrive as float64, in these shapes; return new tensors.

{shapes}
    A dimension is passed as well where it is asked for by name: add `{dimension}: int`.
    """
    raise NotImplementedError("reference.py is not written yet: return {{{returned}}}")
'''


def reference_stub(task: TaskDraft) -> str:
    """A reference.py that fails until someone writes it."""
    read = [t for t in task.tensors if t.role is not ArgumentRole.OUT]
    arguments = [f"    {t.name}: torch.Tensor," for t in read]
    arguments += [f"    {s.name}: {'float' if s.dtype.is_float else 'int'}," for s in task.scalars]
    return _REFERENCE.format(
        name=re.sub(r"[^\w. -]", "_", task.name),
        arguments="\n".join(arguments),
        shapes="\n".join(
            f"    {t.name} ({t.role.value}): [{', '.join(t.sizes)}]" for t in task.tensors
        )
        + "\n",
        dimension=next(iter(task.dims)),
        returned=", ".join(f"'{t.name}': ..." for t in task.written),
    )
