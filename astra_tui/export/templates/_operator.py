"""The operator around the kernels: checks, layouts, launches, and the way out of the contract."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.autograd.graph import increment_version

from . import _contract, _driver, _gpu, _plan  # type: ignore[attr-defined]  # two are generated
from ._calls import Calls
from ._host import Layout, PlanFault, Refused, contiguous
from ._ready import Pair, Ready, Table, key_of, sharing

Tensors = Mapping[str, torch.Tensor]
Numbers = Mapping[str, Any]
Fallback = Callable[..., Any]
Given = Sequence[torch.Tensor]
Values = Sequence[float]

_OUT = tuple(n for n, (role, _, _) in _contract.TENSORS.items() if role == "out")
_INPUTS = tuple(n for n, (role, _, _) in _contract.TENSORS.items() if role != "out")
_WRITTEN = tuple(n for n, (role, _, _) in _contract.TENSORS.items() if role != "in")
_CHANGED = tuple(place for place, name in enumerate(_INPUTS) if name in _WRITTEN)

calls = Calls(f"ASTRA_{_contract.NAME.upper()}")
"""How many calls were launched and how many went to the fallback, and the off switch."""

_fallback: Fallback | None = None
_kernels = _driver.Kernels(Path(__file__).parent)
_ready: Table[Ready] = Table()
_forms: Table[tuple[tuple[tuple[int, ...], torch.dtype], ...]] = Table()


def set_fallback(function: Fallback | None) -> None:
    """Sets what is called for everything outside the contract, such as the original operator.

    It gets the operator's arguments in order, without outputs. It returns the outputs as new
    tensors (one, or a tuple in the order of the contract) and works in place where the operator
    does. Without one, such calls raise ValueError.
    """
    global _fallback
    _fallback = function


def outputs_for(inputs: Tensors, passed: Numbers) -> tuple[torch.Tensor, ...]:
    """New tensors for the outputs, as the shapes and the type of the inputs ask for."""
    element = _element(inputs)
    dims = _contract.dims_of_inputs({n: tuple(t.shape) for n, t in inputs.items()}, **passed)
    shapes = _contract.shapes(element, **dims)
    some = next(iter(inputs.values()))
    return tuple(some.new_empty(shapes[n], dtype=_torch_dtype(n, element)) for n in _OUT)


def take(
    outputs: Given, inputs: Given, numbers: Values, passed: Sequence[int] = ()
) -> Callable[[], None] | None:
    """The launch of a call that lies within the contract; else None, counted as a fallback.

    For hooks that go back to the framework's own function with the arguments as they came.
    """
    try:
        ready, addresses = _admitted(outputs, inputs, numbers, passed)
    except Refused as refusal:
        calls.fell_back(str(refusal))
        return None
    return lambda: _run(ready, addresses, inputs)


def load() -> None:
    """Loads the kernels for the current device, which a CUDA graph's capture does not allow.

    Where there is no GPU, or the switch is off, it does nothing. It makes a CUDA context.
    """
    if torch.cuda.is_available() and not calls.off:
        _kernels.load(_gpu.current_device())


def forget() -> None:
    """Forgets which calls were checked, so that the next of each is looked at from the start."""
    _ready.clear()


def call(inputs: Given, numbers: Values, passed: Sequence[int]) -> tuple[torch.Tensor, ...]:
    """Runs the operator and returns new outputs; arguments that are in and out change in place."""
    try:
        outputs = _new_outputs(inputs, passed)
        _launch(outputs, inputs, numbers, passed)
    except Refused as refusal:
        return _fall_back(refusal, inputs, numbers, passed)
    return outputs


def call_into(outputs: Given, inputs: Given, numbers: Values, passed: Sequence[int]) -> None:
    """Runs the operator into given outputs."""
    try:
        _launch(outputs, inputs, numbers, passed)
        increment_version(outputs)
    except Refused as refusal:
        results = _fall_back(refusal, inputs, numbers, passed)
        for target, result in zip(outputs, results, strict=True):
            target.copy_(result)


def refusal(tensors: Tensors, passed: Numbers) -> str:
    """Why a call with these tensors lies outside the contract, or ""."""
    try:
        _bound(tensors, passed)
    except Refused as found:
        return str(found)
    return ""


def _new_outputs(inputs: Given, passed: Sequence[int]) -> tuple[torch.Tensor, ...]:
    """New tensors for the outputs. Raises Refused where the inputs' shapes give none."""
    try:
        key = (*[(t.dtype, t.shape) for t in inputs], *passed)
        forms = _forms.find(key)
        if forms is not None:
            first = inputs[0]
            return tuple([first.new_empty(shape, dtype=dtype) for shape, dtype in forms])
        named = dict(zip(_INPUTS, inputs, strict=True))
        outputs = outputs_for(named, dict(zip(_contract.PASSED_DIMS, passed, strict=True)))
    except torch.OutOfMemoryError:
        raise
    except (IndexError, RuntimeError, ZeroDivisionError) as error:
        raise Refused(f"the shapes do not fit: {error}") from None
    _forms.keep(key, tuple((tuple(t.shape), t.dtype) for t in outputs))
    return outputs


def _launch(outputs: Given, inputs: Given, numbers: Values, passed: Sequence[int]) -> None:
    """Launches the kernels. Raises Refused before anything runs."""
    ready, addresses = _admitted(outputs, inputs, numbers, passed)
    _run(ready, addresses, inputs)


def _run(ready: Ready, addresses: Sequence[int], inputs: Given) -> None:
    ready.launch(addresses)
    calls.hit(ready.shapes)
    if _CHANGED:
        increment_version([inputs[place] for place in _CHANGED])


def _admitted(
    outputs: Given, inputs: Given, numbers: Values, passed: Sequence[int]
) -> tuple[Ready, list[int]]:
    """A call that is ready, and its addresses. Raises Refused outside the contract.

    All that is checked follows from the key of a call, but for shared memory. So a call with a
    key that was found good is not checked again.
    """
    if calls.off:
        raise Refused(f"switched off by {calls.switch}")
    tensors = (*inputs, *outputs)
    key, addresses = key_of(tensors, (*numbers, *passed))
    ready = _ready.find(key)
    if ready is None or sharing(ready.apart, addresses):
        ready = _checked(dict(zip((*_INPUTS, *_OUT), tensors, strict=True)), numbers, passed)
        _ready.keep(key, ready)
    return ready, addresses


def _fall_back(
    refusal: Refused, inputs: Given, numbers: Values, passed: Sequence[int]
) -> tuple[torch.Tensor, ...]:
    calls.fell_back(str(refusal))
    if _fallback is None:
        raise ValueError(
            f"{_contract.NAME}: {refusal}; set_fallback() of {__package__} names a function for "
            "such calls"
        ) from None
    result = _fallback(*inputs, *numbers, *passed)
    if not _OUT:
        return ()
    results = (result,) if isinstance(result, torch.Tensor) else tuple(result)
    # The caller was promised contiguous memory of its own in each output.
    taken = {t.untyped_storage().data_ptr() for t in inputs}
    own = []
    for each in results:
        shared = each.untyped_storage().data_ptr() in taken
        own.append(
            each.clone(memory_format=torch.contiguous_format) if shared else each.contiguous()
        )
        taken.add(own[-1].untyped_storage().data_ptr())
    return tuple(own)


def _checked(tensors: Tensors, numbers: Values, passed: Sequence[int]) -> Ready:
    """A call that is ready but for addresses. Raises Refused outside the contract."""
    element, dims, layouts = _bound(tensors, dict(zip(_contract.PASSED_DIMS, passed, strict=True)))
    device = next(iter(tensors.values())).device
    ordinal = _gpu.ordinal_of(device)
    if ordinal is None:
        raise Refused(f"the tensors are on {device}, not on a GPU")
    if _gpu.capturing() and not _kernels.loaded(ordinal):
        raise Refused("a CUDA graph is being captured, and the kernels are not loaded yet")
    named = dict(zip(_contract.SCALARS, numbers, strict=True))
    with _gpu.on(ordinal):
        attributes = _driver.attributes(ordinal)
        try:
            plan = _plan.plan(T=element, **dims, _tensors=layouts, **named, _device=attributes)
            order = (*tensors, *(w.name for w in plan.workspaces))
            launches = _kernels.prepare(plan.launches, order, ordinal)
        except (PlanFault, ZeroDivisionError) as fault:
            raise Refused(f"the launch plan makes no sense here: {fault}") from None
    workspaces = tuple(w.size for w in plan.workspaces)
    return Ready(device, ordinal, _pairs(tensors), workspaces, launches, _shapes(tensors))


def _shapes(tensors: Tensors) -> str:
    """Types and shapes of a call's inputs, as its counter is named."""
    parts = (tensors[name] for name in _INPUTS)
    return " ".join(f"{str(t.dtype).removeprefix('torch.')}{list(t.shape)}" for t in parts)


def _bound(tensors: Tensors, passed: Numbers) -> tuple[str, dict[str, int], dict[str, Layout]]:
    """Element type, dimensions and layouts of a call. Raises Refused outside the contract."""
    element = _element(tensors)
    if element not in _contract.DTYPES:
        raise Refused(f"T is {element}; it can be {', '.join(_contract.DTYPES)}")
    sizes = {name: tuple(t.shape) for name, t in tensors.items()}
    try:
        dims = {**passed, **_contract.dims_of_tensors(sizes)}
    except IndexError:
        raise Refused("a tensor has too few axes") from None
    if min(dims.values()) < 0:
        raise Refused(f"a dimension is negative: {dims}")
    condition = _contract.violated(element, **dims)
    if condition:
        raise Refused(f"the contract asks for {condition}; here {dims}")
    shapes = _contract.shapes(element, **dims)
    device = next(iter(tensors.values())).device
    layouts = {}
    for name in _contract.TENSORS:
        layouts[name] = _layout(name, tensors[name], shapes[name], element)
        if tensors[name].device != device:
            raise Refused("the tensors are on different devices")
    condition = _contract.misplaced(element, layouts, **dims)
    if condition:
        raise Refused(f"the contract asks for {condition}")
    _require_apart(tensors)
    return element, dims, layouts


def _element(tensors: Tensors) -> str:
    """T, as the first argument of that type has it."""
    for name, tensor in tensors.items():
        if _contract.TENSORS[name][1] == "T":
            return str(tensor.dtype).removeprefix("torch.")
    return str(_contract.DTYPES[0])


def _torch_dtype(name: str, element: str) -> torch.dtype:
    declared = _contract.TENSORS[name][1]
    found: torch.dtype = getattr(torch, element if declared == "T" else declared)
    return found


def _layout(name: str, tensor: torch.Tensor, shape: tuple[int, ...], element: str) -> Layout:
    if tuple(tensor.shape) != shape:
        raise Refused(f"{name} has the shape {tuple(tensor.shape)}; it should be {shape}")
    wanted = _torch_dtype(name, element)
    if tensor.dtype != wanted:
        raise Refused(f"{name} is {tensor.dtype}; it should be {wanted}")
    if tensor.numel() == 0 or tensor.is_contiguous():
        return Layout(tensor.data_ptr(), contiguous(shape))
    if not _contract.TENSORS[name][2] or len(shape) < 2:
        raise Refused(f"{name} is not contiguous")
    return Layout(tensor.data_ptr(), _row_strides(name, tensor))


def _row_strides(name: str, tensor: torch.Tensor) -> tuple[int, ...]:
    """Strides of a tensor whose rows are equally far apart. Axes of one element have any stride."""
    shape, strides = tensor.shape, tensor.stride()
    rows = [axis for axis in range(len(shape) - 1) if shape[axis] > 1]
    row = strides[rows[-1]] if rows else shape[-1]
    found = [1]
    step = row
    for axis in range(len(shape) - 2, -1, -1):
        found.append(step)
        step *= shape[axis]
    found.reverse()
    bad = any(strides[a] != found[a] for a in rows) or (shape[-1] > 1 and strides[-1] != 1)
    if bad or row < shape[-1]:
        raise Refused(f"{name} has strides {strides}; only its rows may lie apart")
    return tuple(found)


def _require_apart(tensors: Tensors) -> None:
    """Raises Refused where a tensor that is written shares memory with another one."""
    names = tuple(tensors)
    found = sharing(_pairs(tensors), [t.data_ptr() for t in tensors.values()])
    if found is not None:
        raise Refused(f"{names[found.one]} and {names[found.other]} share memory")


def _pairs(tensors: Tensors) -> tuple[Pair, ...]:
    """Every tensor that is written with every other one, once, where both have memory."""
    spans = {n: _span(t) for n, t in tensors.items() if t.numel() and t.device.type != "meta"}
    names = tuple(tensors)
    pairs: dict[frozenset[str], Pair] = {}
    for written in (n for n in _WRITTEN if n in spans):
        for name in (n for n in spans if n != written):
            pair = Pair(names.index(written), spans[written], names.index(name), spans[name])
            pairs.setdefault(frozenset((written, name)), pair)
    return tuple(pairs.values())


def _span(tensor: torch.Tensor) -> int:
    """Bytes from a tensor's address to the end of its last element."""
    last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    span: int = (last + 1) * tensor.element_size()
    return span
