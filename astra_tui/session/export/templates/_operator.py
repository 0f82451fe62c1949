"""The operator around the kernels: checks, layouts, launches, and the way out of the contract."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from . import _contract, _driver, _plan  # type: ignore[attr-defined]  # two are generated
from ._host import BASE_ALIGNMENT, Layout, PlanFault, Refused, contiguous

Tensors = Mapping[str, torch.Tensor]
Numbers = Mapping[str, Any]
Fallback = Callable[..., Any]

_KEPT_PLANS = 4096
_OUT = tuple(n for n, (role, _, _) in _contract.TENSORS.items() if role == "out")
_WRITTEN = tuple(n for n, (role, _, _) in _contract.TENSORS.items() if role != "in")

_fallback: Fallback | None = None
_plans: OrderedDict[Any, Any] = OrderedDict()
_kernels = _driver.Kernels(Path(__file__).parent)


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


def call(inputs: Tensors, numbers: Numbers, passed: Numbers) -> tuple[torch.Tensor, ...]:
    """Runs the operator and returns new outputs; arguments that are in and out change in place."""
    try:
        outputs = _outputs(inputs, passed)
        _launch({**inputs, **dict(zip(_OUT, outputs, strict=True))}, numbers, passed)
    except Refused as refusal:
        return _fall_back(refusal, inputs, numbers, passed)
    return outputs


def call_into(outputs: Tensors, inputs: Tensors, numbers: Numbers, passed: Numbers) -> None:
    """Runs the operator into given outputs."""
    try:
        _launch({**inputs, **outputs}, numbers, passed)
    except Refused as refusal:
        results = _fall_back(refusal, inputs, numbers, passed)
        for target, result in zip(outputs.values(), results, strict=True):
            target.copy_(result)


def refusal(tensors: Tensors, passed: Numbers) -> str:
    """Why a call with these tensors lies outside the contract, or ""."""
    try:
        _bound(tensors, passed)
    except Refused as found:
        return str(found)
    return ""


def _outputs(inputs: Tensors, passed: Numbers) -> tuple[torch.Tensor, ...]:
    try:
        return outputs_for(inputs, passed)
    except (IndexError, RuntimeError, ZeroDivisionError) as error:
        raise Refused(f"the shapes do not fit: {error}") from None


def _fall_back(
    refusal: Refused, inputs: Tensors, numbers: Numbers, passed: Numbers
) -> tuple[torch.Tensor, ...]:
    if _fallback is None:
        raise ValueError(
            f"{_contract.NAME}: {refusal}; set_fallback() of {__package__} names a function for "
            "such calls"
        ) from None
    result = _fallback(*inputs.values(), *numbers.values(), *passed.values())
    if not _OUT:
        return ()
    results = (result,) if isinstance(result, torch.Tensor) else tuple(result)
    memory = {t.untyped_storage().data_ptr() for t in inputs.values()}
    # The caller was promised new, contiguous memory.
    return tuple(
        r.clone() if r.untyped_storage().data_ptr() in memory else r.contiguous() for r in results
    )


def _launch(tensors: Tensors, numbers: Numbers, passed: Numbers) -> None:
    """Launches the kernels. Raises Refused before anything runs."""
    element, dims, layouts = _bound(tensors, passed)
    device = next(iter(tensors.values())).device
    if device.type != "cuda":
        raise Refused(f"the tensors are on {device}, not on a GPU")
    with torch.cuda.device(device):
        ordinal = torch.cuda.current_device()
        places = tuple((y.strides, y.address % BASE_ALIGNMENT) for y in layouts.values())
        key = (ordinal, element, *dims.values(), *numbers.values(), *places)
        found = _plans.get(key)
        if found is None:
            found = _prepared(element, dims, layouts, numbers, ordinal)
            _plans[key] = found
            if len(_plans) > _KEPT_PLANS:
                _plans.popitem(last=False)
        workspaces, launches = found
        scratch = {
            w.name: torch.empty(w.size, dtype=torch.uint8, device=device) for w in workspaces
        }
        addresses = {n: y.address for n, y in layouts.items()}
        addresses.update({n: t.data_ptr() for n, t in scratch.items()})
        _driver.launch(launches, addresses, torch.cuda.current_stream(device).cuda_stream)


def _prepared(
    element: str,
    dims: Mapping[str, int],
    layouts: Mapping[str, Layout],
    numbers: Numbers,
    ordinal: int,
) -> tuple[Any, Any]:
    _driver.make_current(ordinal)
    device = _driver.attributes(ordinal)
    try:
        plan = _plan.plan(T=element, **dims, _tensors=layouts, **numbers, _device=device)
        return plan.workspaces, _kernels.prepare(plan.launches, ordinal)
    except (PlanFault, ZeroDivisionError) as fault:
        raise Refused(f"the launch plan makes no sense here: {fault}") from None


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
    spans = {n: _span(t) for n, t in tensors.items() if t.numel() and t.device.type != "meta"}
    for written in _WRITTEN:
        for name, (begin, end) in spans.items():
            if name == written or written not in spans:
                continue
            if begin < spans[written][1] and spans[written][0] < end:
                raise Refused(f"{written} and {name} share memory")


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """Addresses of the first byte, and after the last one."""
    last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    begin = tensor.data_ptr()
    return begin, begin + (last + 1) * tensor.element_size()
