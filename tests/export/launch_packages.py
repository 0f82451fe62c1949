"""Launches exported packages with a scripted driver, on tensors of the CPU.

    python launch_packages.py FOLDER LOG

Every package is loaded twice: one keeps the calls that it has checked, the other forgets them
before each call. The last line is JSON: results by name.
"""

from __future__ import annotations

import importlib
import inspect
import json
import random
import struct
import sys
import threading
import types
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

FOLDER, LOG = Path(sys.argv[1]), Path(sys.argv[2])
CALLS = 1200
SIZES = (0, 1, 8, 16, 16)
TASKS = ("astra_silu_and_mul", "astra_fused_add_rmsnorm", "astra_merge_attn_states_lse")
SLOT, SLOTS = 1 << 16, 8
sys.path.insert(0, str(FOLDER))

_memory = torch.zeros(SLOTS * SLOT, dtype=torch.uint8)
POOL = _memory[-_memory.data_ptr() % 256 :]
_read = 0


def launched() -> list[dict[str, Any]]:
    """The launches since the last look, with their parameters as bytes."""
    global _read
    with LOG.open() as log:
        log.seek(_read)
        lines = [line.split() for line in log.read().splitlines()]
        _read = log.tell()
    found: list[dict[str, Any]] = []
    early = False
    for word, a, b in lines:
        if word == "launch":
            found.append({"function": int(a), "stream": int(b), "packed": bytearray()})
            found[-1]["early"], early = early, False
        elif word == "attribute":
            early = True
        elif word == "byte":
            found[-1]["packed"].append(int(a))
        elif word in ("grid", "block", "shared"):
            found[-1][word] = (int(a), int(b))
    return found


def loaded(name: str, alias: str) -> Any:
    """A package's _operator and _ready under another name, without its __init__."""
    package = types.ModuleType(alias)
    package.__path__ = [str(FOLDER / name)]
    sys.modules[alias] = package
    return importlib.import_module(f"{alias}._operator")


# -- random calls ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Placed:
    """A tensor in the pool."""

    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...]
    slot: int
    shift: int

    def tensor(self) -> torch.Tensor:
        begin = self.slot * SLOT + self.shift
        memory = POOL[begin : begin + SLOT].view(getattr(torch, self.dtype))
        return memory.as_strided(self.shape, self.strides)

    def moved(self, random_: random.Random) -> Placed:
        """Elsewhere, with the same alignment, and perhaps where another one is."""
        return replace(self, slot=random_.randrange(4))


def random_placed(random_: random.Random, shape: tuple[int, ...], dtype: str, slot: int) -> Placed:
    """Mostly as the contract has it, in a slot of its own."""
    if random_.random() < 0.015:
        shape = (*shape[:-1], shape[-1] + 1)
    if random_.random() < 0.015:
        dtype = "float64"
    strides = torch.empty(shape, device="meta").stride()
    if len(shape) == 2 and random_.random() < 0.2:
        strides = random_.choice(((shape[1] + 1, 1), (shape[1] + 8, 1), (1, shape[0])))
    return Placed(shape, dtype, strides, slot, random_.choice((0, 0, 0, 8, 16, 64, 256)))


@dataclass(frozen=True)
class Call:
    """The arguments of a call; without outputs it makes them."""

    inputs: tuple[Placed, ...]
    outputs: tuple[Placed, ...]
    numbers: tuple[float, ...]

    def moved(self, random_: random.Random) -> Call:
        """The same call with some of its tensors elsewhere."""
        inputs, outputs = (
            tuple(p.moved(random_) if random_.random() < 0.3 else p for p in placed)
            for placed in (self.inputs, self.outputs)
        )
        return replace(self, inputs=inputs, outputs=outputs)


def random_call(random_: random.Random, contract: Any) -> Call:
    """Sizes, types, strides and places at random."""
    element = random_.choice(contract.DTYPES)
    names = [n for n in inspect.signature(contract.shapes).parameters if n != "T"]
    shapes = contract.shapes(element, **{n: random_.choice(SIZES) for n in names})
    inputs, outputs = [], []
    for slot, (name, (role, declared, _)) in enumerate(contract.TENSORS.items()):
        dtype = element if declared == "T" else declared
        placed = random_placed(random_, shapes[name], dtype, slot)
        (outputs if role == "out" else inputs).append(placed)
    given = outputs if random_.random() < 0.5 else []
    numbers = (random_.choice((1e-5, 1e-6, 0.0, -0.0)) for _ in contract.SCALARS)
    return Call(tuple(inputs), tuple(given), tuple(numbers))


def outcome(operator: Any, call: Call) -> Any:
    """What a call launched, addresses of new outputs as their places, or why it was refused."""
    inputs, outputs = ([p.tensor() for p in placed] for placed in (call.inputs, call.outputs))
    made: tuple[torch.Tensor, ...] = ()
    try:
        if outputs:
            operator.call_into(outputs, inputs, call.numbers, ())
        else:
            made = operator.call(inputs, call.numbers, ())
    except ValueError as error:
        assert launched() == []
        return str(error).partition(";")[0]
    found = launched()
    for launch in found:
        for place, tensor in enumerate(made):
            address = struct.pack("<Q", tensor.data_ptr())
            launch["packed"] = launch["packed"].replace(address, struct.pack("<Q", place))
    return [(tuple(t.shape), t.dtype) for t in made], found


def compared(name: str) -> dict[str, Any]:
    """Random calls through the package that keeps calls and the one that forgets them."""
    kept, slow = loaded(name, f"kept_{name}"), loaded(name, f"slow_{name}")
    table = type(slow._ready)
    random_ = random.Random(name)
    seen: Counter[str] = Counter()
    checked = kept._checked

    def counted(*arguments: Any) -> Any:
        seen["checked"] += 1
        return checked(*arguments)

    kept._checked = counted
    calls: list[Call] = []
    functions: set[int] = set()
    for _ in range(CALLS):
        again = calls and random_.random() < 0.7
        call = (
            random_.choice(calls).moved(random_) if again else random_call(random_, kept._contract)
        )
        calls.append(call)
        slow._ready, slow._forms = table(), table()
        before = seen["checked"]
        wanted, got = outcome(slow, call), outcome(kept, call)
        assert got == wanted, (name, call, got, wanted)
        if isinstance(got, str):
            seen["refused"] += 1
            seen["share memory"] += "share memory" in got
        else:
            seen["launched"] += 1
            seen["kept"] += seen["checked"] == before
            functions.update(launch["function"] for launch in got[1])
    return {**seen, "functions": len(functions)}


# -- one thing after another -----------------------------------------------------------------------


def said(function: Any, *arguments: Any, **named: Any) -> str:
    try:
        function(*arguments, **named)
    except (ValueError, RuntimeError) as error:
        return str(error)
    return ""


def half(*shape: int, begin: int = 0) -> torch.Tensor:
    """A float16 tensor in the pool."""
    count = 2 * torch.Size(shape).numel()
    return POOL[begin : begin + count].view(torch.float16).view(shape)


def addresses(launch: dict[str, Any], count: int) -> tuple[int, ...]:
    """The first parameters of a launch, as pointers."""
    return struct.unpack_from(f"<{count}Q", launch["packed"])


def after_a_call_that_is_kept(silu: Any, gpu: Any) -> dict[str, Any]:
    """The same call again, but for one thing."""
    x, out = half(2, 64), half(2, 32, begin=SLOT)
    silu.silu_and_mul(x, out=out)
    silu.silu_and_mul(x, out=out)
    first, again = launched()
    found: dict[str, Any] = {"the same": first == again}
    silu.silu_and_mul(half(2, 64, begin=8), out=out)
    found["alignment"] = launched()[0]["function"] != first["function"]
    silu.silu_and_mul(half(2, 64, begin=512), out=out)
    (moved,) = launched()
    found["address"] = moved["function"] == first["function"]
    found["address"] &= addresses(moved, 2) == (out.data_ptr(), POOL.data_ptr() + 512)
    found["overlap"] = said(silu.silu_and_mul, x, out=half(2, 32, begin=0))
    for behind in (126, 128):
        silu.silu_and_mul(half(2, 64, begin=2 * SLOT + behind), out=out)
    launched()
    found["last element"] = said(silu.silu_and_mul, half(2, 64, begin=SLOT + 126), out=out)
    found["nothing was launched"] = launched() == []
    silu.silu_and_mul(half(2, 64, begin=SLOT + 128), out=out)
    found["right behind it"] = len(launched()) == 1
    gpu.stream = 0x99
    silu.silu_and_mul(x, out=out)
    found["stream"] = launched()[0]["stream"]
    gpu.current = 1
    before = len(gpu.made_current)
    silu.silu_and_mul(x, out=out)
    gpu.current = 0
    found["device"] = gpu.made_current[before:]
    found["launched on it"] = len(launched())
    return found


def in_threads(silu: Any) -> dict[str, Any]:
    """Every thread has tensors of its own, and none has a context before its first call."""
    count, calls = 8, 150
    pairs = [
        (half(2, 64, begin=n * 4096), half(2, 32, begin=n * 4096 + 2048)) for n in range(count)
    ]
    errors: list[BaseException] = []

    def work(x: torch.Tensor, out: torch.Tensor) -> None:
        try:
            for _ in range(calls):
                silu.silu_and_mul(x, out=out)
        except BaseException as error:
            errors.append(error)

    silu.silu_and_mul(*pairs[0][:1], out=pairs[0][1])
    launched()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    threads = [threading.Thread(target=work, args=pair) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(interval)
    wanted = Counter({(out.data_ptr(), x.data_ptr()): calls for x, out in pairs})
    return {
        "errors": list(map(repr, errors)),
        "launches": Counter(addresses(launch, 2) for launch in launched()) == wanted,
    }


def for_autograd(silu: Any, norm: Any) -> dict[str, Any]:
    """Versions of what changes in place, and the derivative that there is not."""
    x, residual, weight = half(2, 64), half(2, 64, begin=SLOT), half(64, begin=2 * SLOT).clone()
    versions = []
    for _ in range(2):
        before = x._version, residual._version, weight._version
        norm.fused_add_rmsnorm(x, residual, weight, 1e-6)
        after = x._version, residual._version, weight._version
        versions.append([b > a for a, b in zip(before, after, strict=True)])
    gate = half(2, 64).clone().requires_grad_()
    result = silu.silu_and_mul(gate)
    launched()
    return {
        "versions": versions,
        "requires grad": result.requires_grad,
        "backward": said(result.sum().backward),
        "no grad": not torch.no_grad()(silu.silu_and_mul)(gate).requires_grad,
    }


def numbers(norm: Any) -> bool:
    """-0.0 equals 0.0, but a kernel can tell them apart."""
    tensors = half(2, 64), half(2, 64, begin=SLOT), half(64, begin=2 * SLOT)
    launched()
    for eps in (0.0, -0.0):
        norm.fused_add_rmsnorm(*tensors, eps)
    plus, minus = launched()
    return bool(plus["packed"] != minus["packed"])


def bounded(gated: Any) -> list[bool]:
    """Whether the first, the second and the last of 4097 values are kept."""
    table = type(gated._operator._ready)()
    for number in range(4097):
        table.keep(number, number)
    return [table.find(number) is not None for number in (0, 1, 4096)]


def workspaces(gated: Any) -> dict[str, bool]:
    """Scratch memory of two calls, each with two launches, of which the second may begin early."""
    x, out = half(2, 64), half(2, 32, begin=SLOT)
    launched()
    for _ in range(2):
        gated.gated_twice(x, out=out)
    each = launched()
    found = {}
    for name, (first, second) in zip(("checked", "kept"), (each[:2], each[2:]), strict=True):
        partial, given = addresses(first, 2)
        target, partial_again, spare = addresses(second, 3)
        found[name] = (target, given) == (out.data_ptr(), x.data_ptr())
        found[name] &= partial == partial_again and len({0, partial, spare}) == 3
        found[name] &= (first["early"], second["early"]) == (False, True)
    return found


def main() -> None:
    found: dict[str, Any] = {name: compared(name) for name in TASKS}
    silu, norm, gated = map(importlib.import_module, (*TASKS[:2], "astra_gated_twice"))
    gpu = importlib.import_module("astra_silu_and_mul._gpu")
    found["again"] = after_a_call_that_is_kept(silu, gpu)
    found["threads"] = in_threads(silu)
    found["autograd"] = for_autograd(silu, norm)
    found["zeros"] = numbers(norm)
    found["workspaces"] = workspaces(gated)
    found["table"] = bounded(gated)
    print(json.dumps(found))


main()
