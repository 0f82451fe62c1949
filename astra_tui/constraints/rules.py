"""One rule a sort of demand: what a source does, by its text, launch plan and compiled code.

A rule says that a demand is kept or broken only where that is certain; else it says what it saw.
Instructions are those of the compiled kernels, so that no spelling hides one. What the source had
before is no break of the diff.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from astra_tui.constraints.reading import Demand, Sort
from astra_tui.constraints.version import Version, directives_in, functions_in, tokens
from astra_tui.model.constraints import Compliance
from astra_tui.model.launch import Dispatch, Launch, LaunchPlan
from astra_tui.model.launch.expression import Expression
from astra_tui.model.launch.printer import print_expression


@dataclass(frozen=True)
class Finding:
    """What a rule says of a source."""

    compliance: Compliance
    why: str
    line: int = 0


Rule = Callable[[Demand, Version, Version], Finding]
"""From a demand, the source before and the source after."""


def apply_rule(demand: Demand, base: Version, new: Version) -> Finding:
    """What the rule of a demand's sort says. A demand on a part is never broken by rule."""
    found = _RULES[demand.sort](demand, base, new)
    if demand.narrowed and found.compliance is Compliance.BROKEN:
        return _open(f"{found.why}; whether that is where it is not wanted, no rule tells")
    return found


def _kept(why: str) -> Finding:
    return Finding(Compliance.KEPT, why)


def _broken(why: str, line: int = 0) -> Finding:
    return Finding(Compliance.BROKEN, why, line)


def _open(why: str, line: int = 0) -> Finding:
    return Finding(Compliance.UNDECIDED, why, line)


# -- what must not be there --------------------------------------------------------------------


def _without(opcodes: str, code: str, name: str) -> Rule:
    """No instruction like `opcodes`; `code` finds what asks for one, for the line."""
    instruction, asked = re.compile(opcodes), re.compile(code)

    def rule(_demand: Demand, base: Version, new: Version) -> Finding:
        before = _matching(instruction, base.opcodes)
        after = _matching(instruction, new.opcodes)
        line = new.find(asked)
        if before and after:
            return _open(f"the code it starts from has {name} too: {after[0]}", line)
        if after:
            return _broken(f"the compiled code has {name}: {after[0]}", line)
        if line:
            return _open(f"line {line} has {name} that no compiled kernel uses", line)
        return _kept(f"the compiled code has no {name}")

    return rule


def _matching(pattern: re.Pattern[str], opcodes: Iterable[str]) -> list[str]:
    return sorted(o for o in opcodes if pattern.match(o))


_APPROXIMATE = re.compile(
    r"\b__(?:expf|exp10f|logf|log2f|log10f|powf|sinf|cosf|tanf|sincosf|fdividef|fdiv_\w+|frcp_\w+"
    r"|fsqrt_\w+|frsqrt_\w+|tanhf|saturatef)\b|\.approx\b"
)
_APPROXIMATE_OPCODE = re.compile(r"(?:div|rcp|sqrt|rsqrt|sin|cos|lg2|ex2|tanh)\.approx")


def _no_fast_math(_demand: Demand, base: Version, new: Version) -> Finding:
    if found := _by_text(_APPROXIMATE, "approximate math", base, new):
        return found
    more = set(_matching(_APPROXIMATE_OPCODE, new.opcodes)) - base.opcodes
    if more:
        return _open(f"the compiled code has {min(more)}, which it did not have before")
    if new.pastes or new.find(_ASM):
        return _open("macros or assembly may spell what no word of the source says")
    if file := new.find_included(_APPROXIMATE):
        return _open(f"{file}, which it includes, asks for approximate math")
    return _kept("no intrinsic asks for approximate math, and no instruction is one more")


def _by_text(pattern: re.Pattern[str], name: str, base: Version, new: Version) -> Finding | None:
    """What follows from a match in the source; None for none. What the code that it starts from
    has, in its own text or in a file that it includes, is no break of the diff.
    """
    line = new.find(pattern)
    if not line:
        return None
    if base.find(pattern):
        return _open(f"the code it starts from has {name} too", line)
    if new.has_from(base, pattern):
        return _open(
            f"line {line} has {name} of a file that the code it starts from includes", line
        )
    return _broken(f"line {line} has {name}", line)


_ASM = re.compile(r"\b(?:asm|__asm__|__asm)\b")


def _no_assembly(_demand: Demand, base: Version, new: Version) -> Finding:
    if found := _by_text(_ASM, "inline assembly", base, new):
        return found
    if new.pastes:
        return _open("a macro may spell it")
    file, more = new.find_included(_ASM), set(new.assembly) - set(base.assembly)
    if file and more:
        text = f"the compiled code has {min(more)!r}, which it did not have before"
        return _open(f"{text}; {file}, which it includes, has inline assembly")
    return _kept("the source holds no asm, and uses none that it did not use")


def _no_spills(_demand: Demand, base: Version, new: Version) -> Finding:
    spilled = {k.expression: k.resources for k in new.kernels}
    worst = {name: r.spill_stores + r.spill_loads for name, r in spilled.items()}
    over = {name: n for name, n in worst.items() if n}
    if not over:
        return _kept("ptxas spills no register")
    name = max(over, key=over.__getitem__)
    before = sum(k.resources.spill_stores + k.resources.spill_loads for k in base.kernels)
    text = f"ptxas spills {over[name]} bytes in {name}"
    return _open(f"{text}, and spilled before") if before else _broken(text)


def _no_directive(names: tuple[str, ...], words: str) -> Rule:
    brought = re.compile(rf"^[ \t]*#[ \t]*(?:{'|'.join(names)})\b", re.MULTILINE)

    def rule(_demand: Demand, base: Version, new: Version) -> Finding:
        known = {text for text, _ in base.directives(*names)}
        added = [(t, line) for t, line in new.directives(*names) if t not in known]
        if not added:
            more = set(new.included) - set(base.included)
            file = next((f for f in sorted(more) if brought.search(new.included_code[f])), "")
            return (
                _open(f"{file} is included now, and brings some")
                if file
                else _kept(f"no {words} is new")
            )
        text, line = added[0]
        theirs = {t for t, _ in directives_in("\n".join(base.included_code.values()), *names)}
        if theirs.issuperset(t for t, _ in added):
            return _open(
                f"line {line} has a {words} of a file that the code it starts from includes", line
            )
        return _broken(f"line {line} has a new {words}: {text}", line)

    return rule


_UNROLL = re.compile(r"#\s*pragma\s+(?:GCC\s+)?unroll\b|_Pragma\s*\(\s*\"[^\"]*unroll", re.I)


def _no_unrolling(_demand: Demand, base: Version, new: Version) -> Finding:
    if found := _by_text(_UNROLL, "an unroll pragma", base, new):
        return found
    if new.find(re.compile(r"_Pragma")) or "%:" in new.code:
        return _open("a macro may make a pragma")
    if file := new.find_included(_UNROLL):
        return _open(f"{file}, which it includes, has unroll pragmas")
    return _kept("no pragma asks for unrolling; the compiler may unroll by itself")


def _no_word(demand: Demand, base: Version, new: Version) -> Finding:
    word = re.compile(rf"\b{re.escape(demand.name)}\b")
    if found := _by_text(word, demand.name, base, new):
        return found
    if new.pastes or new.find(_ASM):
        return _open(f"the source does not say {demand.name}, but may spell it by macros or asm")
    if file := new.find_included(word):
        return _open(f"{file}, which it includes, says {demand.name}")
    return _kept(f"the source does not say {demand.name}")


# -- limits ------------------------------------------------------------------------------------


def _block_most(demand: Demand, _base: Version, new: Version) -> Finding:
    for launch in new.plan.launches():
        least, _ = new.bounds.product(launch.block)
        if demand.number < least < math.inf and _constant(new, launch.block):
            return _broken(f"{launch.kernel} has blocks of {least:g} threads", launch.place.line)
    for run in new.launches:
        if (threads := math.prod(run.block)) > demand.number:
            return _broken(f"{run.kernel} has blocks of {threads} threads", run.place.line)
    most = max((new.bounds.product(launch.block)[1] for launch in new.plan.launches()), default=0)
    if most <= demand.number:
        return _kept(f"no block of the launch plan has more than {most:g} threads")
    return _open("blocks depend on sizes; on the task's workloads they are small enough")


def _constant(new: Version, sizes: tuple[Expression, ...]) -> bool:
    low, high = new.bounds.product(sizes)
    return low == high


def _block_exact(demand: Demand, _base: Version, new: Version) -> Finding:
    return _every_block(new, f"{demand.number} threads", lambda n: n == demand.number)


def _block_multiple(demand: Demand, _base: Version, new: Version) -> Finding:
    words = f"a multiple of {demand.number} threads"
    return _every_block(new, words, lambda n: n % demand.number == 0)


def _every_block(new: Version, words: str, fits: Callable[[int], bool]) -> Finding:
    constant = True
    for launch in new.plan.launches():
        least, most = new.bounds.product(launch.block)
        if least != most:
            constant = False
        elif not fits(int(least)):
            return _broken(f"{launch.kernel} has blocks of {least:g} threads", launch.place.line)
    for run in new.launches:
        if not fits(math.prod(run.block)):
            threads = math.prod(run.block)
            return _broken(f"{run.kernel} has blocks of {threads} threads", run.place.line)
    return _kept(f"every block has {words}") if constant else _open("blocks depend on sizes")


def _shared_most(demand: Demand, _base: Version, new: Version) -> Finding:
    static = {k.expression: k.resources.static_shared for k in new.kernels}
    most_static = max(static.values(), default=0)
    for run in new.launches:
        used = run.shared_bytes + static.get(run.kernel, 0)
        if used > demand.number:
            return _broken(f"{run.kernel} has {used} bytes of shared memory", run.place.line)
    if most_static > demand.number:
        return _broken(f"a kernel declares {most_static} bytes of shared memory")
    dynamic = [new.bounds.of(x.shared_bytes)[1] for x in new.plan.launches() if x.shared_bytes]
    most = most_static + max(dynamic, default=0)
    if most <= demand.number:
        return _kept(f"no block has more than {most:g} bytes of shared memory")
    return _open("shared memory depends on sizes; on the task's workloads it is small enough")


def _registers_most(demand: Demand, _base: Version, new: Version) -> Finding:
    used = {k.expression: k.resources.registers for k in new.kernels}
    if not used:
        return _open("no kernel was compiled")
    name = max(used, key=used.__getitem__)
    text = f"{name} has {used[name]} registers"
    return _kept(text) if used[name] <= demand.number else _broken(text)


_ACCESS = re.compile(
    r"(?:ld|st)\.(?!param|const)(?:\w+(?:\.|::))*?(?:v(?P<count>\d)\.)?[a-z]+(?P<bits>\d+)$"
)
_OTHER_ACCESS = re.compile(r"(?:cp|ldmatrix|stmatrix|wmma|tcgen05|st\.async|red|atom|ldu)\b")
_PACKED = re.compile(r"\b(?!(?:exp|log|atan)2\b)[a-z_]\w*[a-z][248]\b")
"""Names such as those of CUDA's types of several elements."""


def _widest(version: Version) -> tuple[int, str]:
    """Bytes of the widest load or store of the compiled code, and the instruction."""
    widths = [(0, "no load or store")]
    for opcode in version.opcodes:
        if match := _ACCESS.match(opcode):
            widths.append((int(match["count"] or 1) * int(match["bits"]) // 8, opcode))
    return max(widths)


def _width_most(demand: Demand, base: Version, new: Version) -> Finding:
    width, opcode = _widest(new)
    if width > demand.number:
        text = f"{opcode} moves {width} bytes"
        return _open(f"{text}, as before") if _widest(base)[0] > demand.number else _broken(text)
    if others := _matching(_OTHER_ACCESS, new.opcodes):
        return _open(f"how wide {others[0]} is, no rule tells")
    return _kept(f"the widest access is {opcode}, of {width} bytes")


def _no_vectors(_demand: Demand, base: Version, new: Version) -> Finding:
    vector = re.compile(r"(?:ld|st)\.(?!param)(?:\w+(?:\.|::))*v\d\.")
    before, after = (_matching(vector, v.opcodes) for v in (base, new))
    line = new.find(_PACKED)
    if before:
        return _open(f"the code it starts from has {before[0]}", line)
    if after:
        return _broken(f"the compiled code has {after[0]}", line)
    (was, _), (now, opcode) = _widest(base), _widest(new)
    if now > was:
        return _open(f"{opcode} is wider than what was there: it may hold several elements", line)
    if line or new.find_included(_PACKED) or _matching(_OTHER_ACCESS, new.opcodes):
        return _open("packs of elements may be moved as one", line)
    return _kept(f"no access is wider than {was} bytes, as before, and none is a vector's")


def _lines_most(demand: Demand, _base: Version, new: Version) -> Finding:
    count = new.text.count("\n") + (not new.text.endswith("\n"))
    text = f"the source has {count} lines"
    return _kept(text) if count <= demand.number else _broken(text)


def _one_launch(_demand: Demand, base: Version, new: Version) -> Finding:
    most = _launches_of_a_call(new.plan)
    if most <= 1:
        return _kept("a call launches one kernel")
    if _launches_of_a_call(base.plan) > 1:
        return _open("the code it starts from launches several kernels too")
    return _broken(f"a call may launch {most} kernels", new.plan.place.line)


def _launches_of_a_call(plan: LaunchPlan) -> int:
    """The most kernels that one call launches."""
    return sum(
        max(sum(isinstance(item, Launch) for item in b.body) for b in step.branches)
        if isinstance(step, Dispatch)
        else isinstance(step, Launch)
        for step in plan.steps
    )


# -- what must stay ----------------------------------------------------------------------------


def _same_function(demand: Demand, base: Version, new: Version) -> Finding:
    old, now = base.functions.get(demand.name), new.functions.get(demand.name)
    if old is None and now is None and (file := _with_function(demand.name, base)):
        if new.included.get(file) == base.included[file] and _macros(base) == _macros(new):
            return _kept(f"{demand.name} is in {file}, which no diff changes")
        return _open(f"{demand.name} is in {file}, which the source uses otherwise now")
    if old is None:
        return _open(f"the code it starts from has no function {demand.name}")
    if now is None:
        return _broken(f"the source has no function {demand.name} any more")
    before, after = (tokens((f.outer.text or b"").decode()) for f in (old, now))
    line = now.node.start_point[0] + 1
    if before != after:
        return _broken(f"{demand.name} is not what it was", line)
    if _macros(base) != _macros(new) or set(new.included) - set(base.included):
        return _open(f"{demand.name} is as it was, but macros may not be")
    return _kept(f"{demand.name} is word for word as it was")


def _with_function(name: str, version: Version) -> str:
    """The file that defines a function, of those that a source includes; "" for none."""
    holding = (file for file, code in version.included_code.items() if name in code)
    defines = (f for f in holding if name in functions_in(version.included_code[f]))
    return next(defines, "")


def _macros(version: Version) -> list[str]:
    return [text for text, _ in version.directives("define", "undef")]


def _same_plan(_demand: Demand, base: Version, new: Version) -> Finding:
    if base.plan == new.plan:
        return _kept("the launch plan says what it said")
    return _broken("the launch plan is another one", new.plan.place.line)


def _same_sizes(what: str) -> Rule:
    def rule(_demand: Demand, base: Version, new: Version) -> Finding:
        before, after = (
            [tuple(map(print_expression, getattr(x, what))) for x in v.plan.launches()]
            for v in (base, new)
        )
        if before == after and base.plan.declarations == new.plan.declarations:
            return _kept(f"every {what} is written as it was")
        old, now = ([getattr(run, what) for run in v.launches] for v in (base, new))
        if old and old != now:
            return _broken(f"the {what} on the task's workloads is another one")
        return _open(f"the {what} is written otherwise, and the same on the task's workloads")

    return rule


_RULES: Mapping[Sort, Rule] = {
    Sort.BLOCK_MOST: _block_most,
    Sort.BLOCK_EXACT: _block_exact,
    Sort.BLOCK_MULTIPLE: _block_multiple,
    Sort.SHARED_MOST: _shared_most,
    Sort.REGISTERS_MOST: _registers_most,
    Sort.WIDTH_MOST: _width_most,
    Sort.LINES_MOST: _lines_most,
    Sort.ONE_LAUNCH: _one_launch,
    Sort.SHUFFLES: _without(r"shfl\.", r"shfl", "shuffles"),
    Sort.ATOMICS: _without(r"(?:atom|red|multimem\.red)\.", r"\b(?:atomic|atom|red)\w*", "atomics"),
    Sort.SHARED: _without(
        r"\.shared$|(?:ld|st|atom|red)\.shared", r"\b__shared__\b", "shared memory"
    ),
    Sort.BARRIERS: _without(r"(?:bar|barrier)\.", r"__sync(?:threads|warp)\w*", "barriers"),
    Sort.ASSEMBLY: _no_assembly,
    Sort.FAST_MATH: _no_fast_math,
    Sort.DOUBLE: _without(
        r"[a-z0-9]+(?:\.\w+)*\.f64(?:\.|$)", r"\bdouble\d?\b", "double precision"
    ),
    Sort.HALF_MATH: _without(
        r"(?:add|sub|mul|fma|neg|min|max|abs|ex2|tanh)(?:\.\w+)*\.b?f16(?:x2)?$",
        r"\b__h(?:add|sub|mul|fma|div|neg|max|min)2?\w*",
        "half-precision arithmetic",
    ),
    Sort.ASYNC_COPIES: _without(
        r"(?:cp\.async|cp\.reduce\.async|st\.async|mbarrier)",
        r"cp_async|memcpy_async|cp\.async|__pipeline_\w+",
        "asynchronous copies",
    ),
    Sort.TENSOR_CORES: _without(
        r"(?:mma|wmma|wgmma|ldmatrix|stmatrix|tcgen05)\.",
        r"\bw?g?mma\b|nvcuda::wmma",
        "matrix instructions",
    ),
    Sort.CLUSTERS: _without(
        r"(?:barrier\.cluster|mapa|.*\.shared::cluster|\.\w*cluster\w*)",
        r"__cluster_dims__|cluster",
        "clusters",
    ),
    Sort.DEPENDENT_LAUNCH: _without(
        r"griddepcontrol\.", r"griddepcontrol|cudaGridDependency\w*|cudaTrigger\w*",
        "dependent launches",
    ),
    Sort.VECTORS: _no_vectors,
    Sort.SPILLS: _no_spills,
    Sort.INCLUDES: _no_directive(("include",), "include"),
    Sort.MACROS: _no_directive(("define",), "macro"),
    Sort.UNROLLING: _no_unrolling,
    Sort.LAUNCH_BOUNDS: _without(
        r"\.(?:maxntid|minnctapersm|reqntid)", r"__launch_bounds__|__maxnreg__", "launch bounds"
    ),
    Sort.WORD: _no_word,
    Sort.SAME_FUNCTION: _same_function,
    Sort.SAME_PLAN: _same_plan,
    Sort.SAME_GRID: _same_sizes("grid"),
    Sort.SAME_BLOCK: _same_sizes("block"),
}  # fmt: skip
