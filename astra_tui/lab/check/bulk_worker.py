"""Compares whole outputs with the reference, in the oracle's process: on its GPU, or on the CPU.

The rules are those of judge.py, over tensors of torch instead of arrays of NumPy; tests hold the
two together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from astra_tui.gpu import drawing
from astra_tui.lab.check.bulk import BulkAnswer, BulkInput, BulkJob, BulkOutput, BulkPart
from astra_tui.lab.check.judge import overflow_bounds
from astra_tui.model.bit_patterns import codes, encode, narrow_values, rounding_reach
from astra_tui.model.dtypes import DType
from astra_tui.processes.frames import window_bytes

_ALIGNMENT = 256
_THREADS, _BLOCKS = 256, 4096

Reference = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""reference.py, called with the arguments that it names."""


class BulkWorker:
    """Answers jobs one after the other; what was drawn for one is there for the next."""

    def __init__(self, reference: Reference, gpu: OracleGpu | str):
        """`gpu` is where to compute, or why that is the CPU; empty where none was asked for."""
        self._reference = reference
        self._gpu = gpu if isinstance(gpu, OracleGpu) else None
        self._note = gpu if isinstance(gpu, str) else ""
        self._reference_on = self._gpu.device if self._gpu is not None else "cpu"
        self._drawn: tuple[Any, dict[str, Any]] | None = None

    def answer(self, job: BulkJob) -> BulkAnswer:
        """Raises what the reference raises on the CPU."""
        if self._reference_on != "cpu":
            try:
                return BulkAnswer(self._judge(job), self._reference_on)
            except Exception as error:  # What a reference cannot do on a GPU has no type.
                self._note = f"reference() does not run on the GPU ({first_words(error)})"
                self._reference_on = "cpu"
                self._release()
        return BulkAnswer(self._judge(job), "cpu", self._note)

    def _release(self) -> None:
        self._drawn = None
        if self._gpu is not None:
            self._gpu.release()

    def finish(self) -> None:
        """Gives the GPU's memory back."""
        self._release()

    def _judge(self, job: BulkJob) -> tuple[BulkPart, ...]:
        import torch

        inputs = self._inputs(job)
        found: dict[str, list[Any]] = {output.name: [] for output in job.outputs}
        for number in range(job.sets):
            values: dict[str, Any] = dict(job.arguments)
            for each in job.inputs:
                rows = _rows_of(job, each, inputs[each.name][number])
                values[each.name] = _decoded(rows.to(self._reference_on), DType(each.fill.dtype))
            answer = self._reference(values)
            for output in job.outputs:
                values_of = torch.as_tensor(answer[output.name])
                if tuple(values_of.shape) != output.shape:
                    raise ValueError(
                        f"reference() returns {output.name} of shape {tuple(values_of.shape)}, "
                        f"the task says {output.shape}"
                    )
                found[output.name].append(widened(values_of).reshape(-1))
        window = window_bytes(job.window)
        return tuple(
            compare(output, window, torch.stack(found[output.name])) for output in job.outputs
        )

    def _inputs(self, job: BulkJob) -> dict[str, Any]:
        """Bit patterns by input, of shape (sets, bytes); kept for the next rows of these sets."""
        key = (job.inputs, job.first_set, job.sets)
        if self._drawn is None or self._drawn[0] != key:
            self._release()
            draw = self._gpu.draw if self._gpu is not None else _draw
            drawn = {each.name: draw(each, job.first_set, job.sets) for each in job.inputs}
            self._drawn = key, drawn
        return self._drawn[1]


class OracleGpu:
    """The GPU in this process: torch for the reference, our own kernel for the inputs.

    It has to be made before the process confines itself: CUDA opens files while it starts.
    """

    def __init__(self, uuid: str, tools: bytes, symbols: dict[str, str]):
        """Raises RuntimeError where torch sees no GPU, DriverError, LookupError."""
        import torch

        from astra_tui.gpu.process.bindings import CudaDriver
        from astra_tui.gpu.process.tools import Tools

        if not torch.cuda.is_available():
            raise RuntimeError(f"torch {torch.__version__} sees none")
        self._driver = CudaDriver()
        facts = next((f for f in self._driver.devices() if f.uuid == uuid), None)
        if facts is None:
            raise LookupError(f"there is no device {uuid}")
        self.device = f"cuda:{facts.ordinal}"
        # The context that the driver is to use is torch's; what computes is loaded with it.
        torch.ones(2, dtype=torch.float64, device=self.device).exp().sum().item()
        self._driver.open(facts.ordinal)
        self._tools = Tools(self._driver, tools, symbols)

    def draw(self, each: BulkInput, first: int, sets: int) -> Any:
        import torch

        from astra_tui.gpu.process.driver import Launch

        elements = math.prod(each.shape)
        size = DType(each.fill.dtype).bytes_of(elements)
        stride = -(-max(size, 1) // _ALIGNMENT) * _ALIGNMENT
        memory = torch.empty((sets, stride), dtype=torch.uint8, device=self.device)
        torch.cuda.current_stream(memory.device).synchronize()
        if elements:
            seed = (each.seed + first) % 2**64
            parameters = memory.data_ptr().to_bytes(8, "little")
            parameters += drawing.draw_parameters(each.fill, seed, elements, stride)
            blocks = min(-(-elements // _THREADS), _BLOCKS)
            grid, block = (blocks, sets, 1), (_THREADS, 1, 1)
            self._driver.launch(Launch(self._tools.function("draw"), grid, block, 0, parameters))
        self._driver.wait()
        return memory[:, :size]

    def release(self) -> None:
        """Gives back what torch keeps for later."""
        import torch

        torch.cuda.empty_cache()


def widened(tensor: Any) -> Any:
    """A reference's answer as float64 or, if it is whole numbers, int64."""
    return tensor.double() if tensor.is_floating_point() else tensor.long()


def first_words(error: BaseException) -> str:
    """An error in one line."""
    words = str(error).strip().splitlines()
    return f"{type(error).__name__}: {words[0]}" if words else type(error).__name__


def _draw(each: BulkInput, first: int, sets: int) -> Any:
    """The same by the twin in NumPy."""
    import torch

    dtype = DType(each.fill.dtype)
    items = math.prod(each.shape) // dtype.per_item
    drawn = np.empty((sets, items), f"u{dtype.size}")
    for number in range(sets):
        drawn[number] = drawing.draw(each.fill, each.seed, first + number, range(items))
    return torch.from_numpy(drawn.view(np.uint8).reshape(sets, items * dtype.size))


def _rows_of(job: BulkJob, each: BulkInput, raw: Any) -> Any:
    """The bytes of one set's rows, of shape (rows, ..., bytes of the last dimension)."""
    shape = (*each.shape[:-1], DType(each.fill.dtype).bytes_of(each.shape[-1]))
    if not each.has_rows:
        return raw.reshape(shape)
    row = len(raw) // max(each.shape[0], 1)
    part = raw[job.first_row * row : (job.first_row + job.rows) * row]
    return part.reshape((job.rows, *shape[1:]) if len(shape) > 1 else -1)


def _decoded(raw: Any, dtype: DType) -> Any:
    """Bytes (the last dimension) to float64, or to int64 for integers (uint64 wraps)."""
    import torch

    if dtype.is_narrow:
        values = torch.from_numpy(narrow_values(dtype).copy()).to(raw.device)
        return values[_codes(raw, dtype)]
    if dtype.is_float:
        return raw.contiguous().view(getattr(torch, dtype.torch)).double()
    if dtype.size == 1 and not dtype.is_signed:
        return raw.long()
    signed = raw.contiguous().view(getattr(torch, f"int{8 * dtype.size}")).long()
    return signed if dtype.is_signed or dtype.size == 8 else signed & (2 ** (8 * dtype.size) - 1)


def _codes(raw: Any, dtype: DType) -> Any:
    """Bytes (the last dimension) to the code of every element of a narrow type, as int64."""
    import torch

    if dtype.per_item == 1:
        return raw.long()
    return torch.stack((raw & 15, raw >> 4), -1).reshape(*raw.shape[:-1], -1).long()


def compare(output: BulkOutput, window: Any, expected: Any) -> BulkPart:
    """One output of a job; `expected` has a row a set, float64 or int64."""
    import torch

    dtype, (sets, count) = DType(output.dtype), expected.shape
    size = dtype.bytes_of(count)
    if not count:
        return BulkPart(0, 0.0, (0, 0), 0, 0, 0, 0, (0, 0), 0, 0, 0.0, (0.0,) * sets, (0.0,) * sets)
    host = window[output.at : output.at + sets * size]
    raw = torch.from_numpy(host).to(expected.device, copy=True).reshape(sets, size)
    got = _decoded(raw, dtype)
    if not dtype.is_float:
        return _compare_integers(output, got, expected)
    mismatched = _mismatched(got, expected, dtype, output.rtol)
    finite = torch.isfinite(got) & torch.isfinite(expected)
    reference = torch.where(finite, expected, 0.0)
    difference = torch.where(finite, got, 0.0).sub_(reference).abs_()
    if dtype.is_narrow:
        difference = _without_rounding(difference, raw, got, expected, dtype)
    squared_errors = difference.square().sum(1)
    bound = reference.abs().mul_(output.rtol).add_(output.atol).clamp_(min=1e-300)
    error = torch.where(difference == 0, 0.0, difference / bound)
    if output.atol == 0 and output.rtol == 0:
        error = _unrounded(error, raw, expected, dtype)
    return _part(
        output,
        error,
        got,
        expected,
        mismatched,
        difference.max(),
        squared_errors,
        reference.square_().sum(1),
    )


def _without_rounding(difference: Any, raw: Any, got: Any, expected: Any, dtype: DType) -> Any:
    """What is left of a difference when half a step of a narrow type is no error."""
    import torch

    code = _codes(raw, dtype)
    towards, away = (torch.from_numpy(r).to(raw.device)[code] for r in rounding_reach(dtype))
    beyond = torch.where(torch.signbit(got), expected < got, expected > got)
    return (difference - torch.where(beyond, away, towards)).clamp_(min=0.0)


def _compare_integers(output: BulkOutput, got: Any, expected: Any) -> BulkPart:
    import torch

    difference = (got.double() - expected.double()).abs()
    wrong = (got != expected) & ((difference > output.atol) | (output.atol == 0))
    # Two numbers that differ may be the same as float64.
    error = torch.where(wrong, math.inf, 0.0)
    if output.atol:
        error = difference / output.atol
    none = torch.zeros_like(wrong)
    zeros = torch.zeros(len(got), dtype=torch.float64, device=got.device)
    return _part(output, error, got, expected, none, difference.max(), zeros, zeros)


def _mismatched(got: Any, reference: Any, dtype: DType, rtol: float) -> Any:
    """NaN or infinite where the reference is not, or the other way."""
    import torch

    nan = torch.isnan(got) != torch.isnan(reference)
    size = reference.abs()
    may_overflow, must_overflow = overflow_bounds(dtype, rtol)
    must = size > must_overflow
    may = must | (size >= may_overflow)
    infinite = torch.isinf(got)
    wrong = (infinite & ~may) | (must & ~infinite)
    wrong |= infinite & may & (torch.signbit(got) != torch.signbit(reference))
    return nan | wrong


def _unrounded(error: Any, raw: Any, expected: Any, dtype: DType) -> Any:
    """A tolerance of zero asks for the reference rounded to the type: no error where it is that."""
    import torch

    rounded = encode(expected.cpu().numpy(), dtype)
    bits = np.ascontiguousarray(raw.cpu().numpy()).view(rounded.dtype).reshape(rounded.shape)
    same = torch.from_numpy(codes(bits, dtype) == codes(rounded, dtype)).to(error.device)
    return torch.where(same, 0.0, error)


def _part(
    output: BulkOutput,
    error: Any,
    got: Any,
    expected: Any,
    mismatched: Any,
    max_abs: Any,
    squared_errors: Any,
    squared: Any,
) -> BulkPart:
    import torch

    count = error.shape[1]
    worst, first = error.argmax(), mismatched.view(torch.uint8).argmax()
    places = torch.stack([worst, first])
    numbers = torch.stack(
        [
            error.reshape(-1)[worst],
            (error > output.allowed).sum().double(),
            mismatched.sum().double(),
            max_abs.double(),
            *got.reshape(-1)[places].double(),
            *expected.reshape(-1)[places].double(),
        ]
    )
    found = torch.cat([numbers, squared_errors, squared]).tolist()
    at = [(int(p) // count, int(p) % count) for p in places.tolist()]
    sets, sums = len(squared), found[8:]
    return BulkPart(
        elements=error.numel(),
        worst=found[0],
        worst_at=at[0],
        got=found[4],
        expected=found[6],
        wrong=int(found[1]),
        mismatched=int(found[2]),
        mismatch_at=at[1],
        mismatch_got=found[5],
        mismatch_expected=found[7],
        max_abs=found[3],
        squared_errors=tuple(sums[:sets]),
        squared=tuple(sums[sets:]),
    )
