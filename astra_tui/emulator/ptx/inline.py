"""Puts the bodies of device functions in the place of their calls.

Registers, labels and variables of a callee get names of their own at each call. Call parameters
become local variables of each thread, so that a struct passed by value keeps its bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from astra_tui.emulator.ptx.module import (
    Address,
    Function,
    Instruction,
    Location,
    Module,
    Negated,
    Operand,
    Pair,
    Param,
    PtxError,
    Register,
    Symbol,
    Variable,
    Vector,
)

MAX_DEPTH = 24
MAX_INSTRUCTIONS = 400_000

BUILTIN_CALLS = frozenset({"vprintf", "__assertfail"})
"""Functions of the device runtime that the emulator runs itself."""

_REFUSED_CALLS = {
    "malloc": "device-side malloc",
    "free": "device-side free",
    "cudaLaunchDeviceV2": "launches from the device",
    "cudaGetParameterBufferV2": "launches from the device",
}


@dataclass
class _Flat:
    """A function under construction."""

    registers: dict[str, str] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    calls: int = 0


def inline_calls(module: Module, entry: str) -> Function:
    """The entry with every call of a device function inlined."""
    function = module.functions[entry]
    flat = _Flat()
    _append(module, function, flat, "", {}, Location(), 0)
    return replace(
        function,
        registers=flat.registers,
        variables=tuple(flat.variables),
        instructions=tuple(flat.instructions),
        labels=flat.labels,
        tables=flat.tables,
    )


def _append(
    module: Module,
    function: Function,
    flat: _Flat,
    suffix: str,
    bound: dict[str, str],
    caller: Location,
    depth: int,
) -> None:
    """Appends a function's body. `bound` maps its parameters to variables of the caller."""
    if depth > MAX_DEPTH:
        raise PtxError(f"device functions call each other more than {MAX_DEPTH} deep (recursion?)")
    names = {name: name + suffix for name in function.registers}
    names.update({v.name: v.name + suffix for v in function.variables if _is_private(v)})
    names.update({label: label + suffix for label in function.labels})
    names.update(bound)
    flat.registers.update({names[r]: t for r, t in function.registers.items()})
    for variable in function.variables:
        if _is_private(variable):
            name = names[variable.name]
            flat.variables.append(replace(variable, name=name, space="local"))
        elif variable not in flat.variables:
            flat.variables.append(variable)
    for table, labels in function.tables.items():
        flat.tables[table + suffix] = tuple(names[label] for label in labels)
    starts: dict[int, int] = {}
    end_label = f"$end{suffix}"
    for index, instruction in enumerate(function.instructions):
        starts[index] = len(flat.instructions)
        renamed = _rename(instruction, names, suffix, caller)
        if instruction.operation == "call":
            _call(module, renamed, flat, depth)
        elif suffix and instruction.operation == "ret":
            flat.instructions.append(
                replace(renamed, operation="bra", modifiers=(), operands=(Symbol(end_label),))
            )
        else:
            flat.instructions.append(renamed)
        if len(flat.instructions) > MAX_INSTRUCTIONS:
            raise PtxError(f"more than {MAX_INSTRUCTIONS} instructions after inlining")
    starts[len(function.instructions)] = len(flat.instructions)
    flat.labels.update({names[label]: starts[i] for label, i in function.labels.items()})
    if suffix:
        flat.labels[end_label] = len(flat.instructions)


def _is_private(variable: Variable) -> bool:
    """Whether each thread and each call has a copy of its own."""
    return variable.space in ("local", "param")


def _call(module: Module, call: Instruction, flat: _Flat, depth: int) -> None:
    target = next((o for o in call.operands if isinstance(o, Symbol)), None)
    if target is None:
        raise PtxError("a call through a function pointer is not emulated")
    if target.name in BUILTIN_CALLS:
        flat.instructions.append(call)
        return
    callee = module.functions.get(target.name)
    if callee is None:
        what = _REFUSED_CALLS.get(target.name, f"a call of {target.name}")
        raise PtxError(f"{what} is not emulated")
    position = call.operands.index(target)
    results = call.operands[0] if position == 1 else None
    passed = call.operands[position + 1] if len(call.operands) > position + 1 else None
    bound = {**_bind(callee.params, passed), **_bind(callee.returns, results)}
    flat.calls += 1
    if call.predicate is not None:
        raise PtxError("a predicated call is not emulated")
    _append(module, callee, flat, f"~{flat.calls}", bound, call.location, depth + 1)


def _bind(params: tuple[Param, ...], passed: Operand | None) -> dict[str, str]:
    items = passed.items if isinstance(passed, Vector) else ()
    if len(items) != len(params):
        raise PtxError("a call with the wrong number of parameters")
    bound = {}
    for param, item in zip(params, items, strict=True):
        assert isinstance(item, Symbol | Register)
        bound[param.name] = item.name
    return bound


def _rename(
    instruction: Instruction, names: dict[str, str], suffix: str, caller: Location
) -> Instruction:
    location = instruction.location
    if suffix:
        above = (caller.line, *caller.callers) if caller.line else caller.callers
        if location.line:
            location = replace(location, callers=(*location.callers, *above))
        else:
            location = replace(caller, header=location.header or caller.header)
    predicate = instruction.predicate
    return replace(
        instruction,
        operands=tuple(_renamed(operand, names, suffix) for operand in instruction.operands),
        predicate=Register(names.get(predicate.name, predicate.name)) if predicate else None,
        location=location,
    )


def _renamed(operand: Operand, names: dict[str, str], suffix: str) -> Operand:
    match operand:
        case Register(name=name):
            return Register(names.get(name, name))
        case Symbol(name=name):
            return Symbol(names.get(name, name))
        case Vector(items=items):
            return Vector(tuple(_renamed(i, names, suffix) for i in items))  # type: ignore[misc]
        case Address(base=base, offset=offset):
            return Address(_renamed(base, names, suffix), offset)  # type: ignore[arg-type]
        case Negated(register=register):
            return Negated(Register(names.get(register.name, register.name)))
        case Pair(first=first, second=second):
            return Pair(
                Register(names.get(first.name, first.name)),
                Register(names.get(second.name, second.name)),
            )
        case _:
            return operand
