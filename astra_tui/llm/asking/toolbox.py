"""The tools of one turn: what an agent may try on drafts and look up, and what it is told.

A draft is a source that is not a candidate: nothing is decided on it. Drafts have names, so that a
source is written once.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from types import MappingProxyType

from astra_tui.llm.asking.facts import counters_text, device_text, hardware_text, hot_places
from astra_tui.llm.asking.move_facts import OfferedMoves
from astra_tui.llm.asking.prompts import (
    Data,
    clipped,
    compose,
    in_words,
    launch_plan_rules,
    prompt_text,
    refusals,
)
from astra_tui.llm.errors import BadAnswer
from astra_tui.llm.fences import read_whole_file
from astra_tui.llm.messages import Json, ToolSpec
from astra_tui.llm.search_replace import apply_blocks, read_blocks
from astra_tui.llm.tools import Handler
from astra_tui.model.added_cases import LARGEST_SIZE
from astra_tui.model.check import CaseResult, Checked
from astra_tui.model.citations import COUNTED
from astra_tui.model.compilation import describe_errors
from astra_tui.model.counters import Counters, add_counters
from astra_tui.model.errors import UserError, nearest
from astra_tui.model.plan import Measurement
from astra_tui.model.roles import Role
from astra_tui.model.sass import Disassembly, instructions_by_line
from astra_tui.model.settings import ToolLimits
from astra_tui.model.task import KernelTask, Workload
from astra_tui.model.team_protocol import BASE, Brief, KnownCandidate, Turn
from astra_tui.model.timing import Timing
from astra_tui.model.verdict import Profile, WorkloadProfile

LAST = "last"
"""The draft that is the last attempt, where that failed."""
TESTED = "candidate"
"""The code that is to be tested, whose diff was accepted."""

NO_DRAFTS: Mapping[str, str] = MappingProxyType({})

MAX_INSTRUCTIONS = 120
MAX_ERRORS = 4_000
"""Characters of a compiler's errors."""
MAX_WASTED = 8
MAX_ELEMENTS = 1 << 17
"""Of the largest tensor of a shape that is not a workload; of a row, where the task has rows."""
MAX_SUBJECT = 20
"""Words of what a memory was asked, in the log."""
COMPARED = ("sectors", "requests", "warp_instructions", "bank_conflicts", "barriers", "shuffles")

_BLOCK = re.compile(r"^<{5,9} SEARCH", re.MULTILINE)
_CHOSEN = re.compile(r"^\s*DRAFT\s+(\w+)\s*$", re.MULTILINE)

_DRAFT = {"draft": ("string", "the name of a draft or a candidate, or base")}
_CANDIDATE = ("string", "the name of a candidate")
ARGUMENTS = {
    "compile": {
        "source": ("string", "a whole file, or SEARCH/REPLACE blocks that change `of`"),
        "of": ("string", "the draft that blocks change; base where it is a whole file"),
    },
    "check": _DRAFT,
    "count": _DRAFT,
    "disassemble": {
        **_DRAFT,
        "first": ("integer", "the first source line to show; 0 for the histogram alone"),
        "last": ("integer", "the last source line to show"),
    },
    "time": _DRAFT,
    "measure": {
        "candidate": _CANDIDATE,
        "shape": ("string", "a workload, or all sizes as in rows=7, d=4096; empty: all workloads"),
        "counters": ("string", "some of the counters by name, with commas between; empty: all"),
        "first": ("integer", "the first source line to count by itself; 0: none"),
        "last": ("integer", "the last one"),
    },
    "compare": {
        "first": _CANDIDATE,
        "second": _CANDIDATE,
        "workload": ("string", "one workload; empty: all"),
    },
    "read_hardware": {"candidate": _CANDIDATE, "workload": ("string", "one workload")},
    "read_launch_plan": {},
    "read_device": {},
    "list_moves": {},
    "preview_move": {"name": ("string", "a name from list_moves")},
    "search_memory": {
        "operator": ("string", "a kernel task's name; empty for any"),
        "about": ("string", "a bottleneck or a change in a few words; empty for any"),
    },
}
_OF_ROLE = {
    Role.PLANNING: (
        "list_moves",
        "preview_move",
        "compile",
        "check",
        "count",
        "disassemble",
        "time",
        "read_launch_plan",
        "read_device",
        "search_memory",
    ),
    Role.CODING: ("compile", "check", "count", "disassemble", "time", "search_memory"),
    Role.PROFILING: ("measure", "compare", "read_hardware", "disassemble", "read_device"),
    Role.TESTING: ("check", "count", "disassemble", "read_launch_plan", "read_device"),
}


@dataclass
class Toolbox:
    """The tools of a role in one turn, and what it was told."""

    turn: Turn
    brief: Brief
    role: Role
    moves: OfferedMoves | None = None
    drafts: dict[str, str] = field(default_factory=dict)
    """Sources by the names that the agent has for them."""
    told: list[tuple[str, str]] = field(default_factory=list)
    """Each use with its answer."""
    measured: dict[str, Measurement] = field(default_factory=dict)
    """What it was told that is no error, by the names that a profiling agent has for it."""
    written: int = 0
    """How many drafts the agent wrote."""

    def __post_init__(self) -> None:
        self.drafts.setdefault(BASE, self.brief.source)
        self._candidates = {c.name: c for c in self.brief.candidates}
        if self.role is Role.PROFILING:
            self.drafts |= {c.name: c.source for c in self.brief.candidates}

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools that are of use here, as the model is told of them."""
        names = (n for n in _OF_ROLE[self.role] if self._is_offered(n))
        return tuple(_spec(n, prompt_text(f"tool_{n}").strip()) for n in names)

    def _is_offered(self, name: str) -> bool:
        if name == "time":
            return self.turn.may_time
        if name == "read_hardware":
            return self.turn.may_read_hardware
        if name == "search_memory":
            return self.turn.may_recall
        if name.endswith(("_move", "_moves")):
            return self.moves is not None and bool(self.moves.proposals)
        return True

    @property
    def handlers(self) -> dict[str, Handler]:
        """What does the calls."""
        return {name: getattr(self, f"_{name}") for name in ARGUMENTS}

    def chosen(self, answer: str) -> str | None:
        """The source of the draft that an answer names in place of a file. Raises BadAnswer."""
        named = _CHOSEN.search(answer)
        if named is None or "```" in answer:
            return None
        try:
            return self._source(named[1])
        except UserError as error:
            raise BadAnswer(error.message, hint=error.hint) from None

    def transcript(self) -> str:
        """What was used and told, for a prompt that follows."""
        return "\n\n".join(f"{call}:\n{answer}" for call, answer in self.told)

    async def _use(
        self, tool: str, subject: str, do: Callable[[], Awaitable[str]], draft: str = ""
    ) -> str:
        answer = await self.turn.use(tool, subject, do, draft)
        self.told.append((f"{tool} {subject}".strip(), answer))
        if self.role is not Role.PROFILING or answer.startswith("error: "):
            return answer
        name = f"m{len(self.measured) + 1}"
        self.measured[name] = Measurement(tool, subject, answer)
        return f"{name}: {answer}"

    def _candidate(self, name: str) -> KnownCandidate:
        if name not in self._candidates:
            hint = nearest(name, self._candidates)
            raise UserError(f"there is no candidate '{name}' to measure", hint=hint)
        return self._candidates[name]

    def _source(self, name: str) -> str:
        if name not in self.drafts:
            raise UserError(f"there is no draft '{name}'", hint=nearest(name, self.drafts))
        return self.drafts[name]

    async def _compile(self, arguments: Json) -> str:
        name, text, problem = f"d{self.written + 1}", "", None
        try:
            text = self._written(str(arguments["source"]), str(arguments["of"]))
        except UserError as error:
            problem = error
        else:
            self.written += 1
            self.drafts[name] = text

        async def compile_draft() -> str:
            if problem is not None:
                raise problem
            errors = await self.turn.compile(text)
            if not errors:
                return f"{name} compiles"
            return f"{name} does not compile: {clipped(describe_errors(errors), MAX_ERRORS)}"

        return await self._use("compile", name, compile_draft, text)

    def _written(self, source: str, of: str) -> str:
        """The source that was meant. Raises UserError."""
        if _BLOCK.search(source):
            return apply_blocks(self._source(of), read_blocks(source))
        text = read_whole_file(source) if source.lstrip().startswith("```") else source
        return text if text.endswith("\n") else f"{text}\n"

    async def _check(self, arguments: Json) -> str:
        name = str(arguments["draft"])

        async def check_draft() -> str:
            return f"{name} {check_text(await self.turn.check(self._source(name)))}"

        return await self._use("check", name, check_draft)

    async def _count(self, arguments: Json) -> str:
        name = str(arguments["draft"])

        async def count_draft() -> str:
            source = self._source(name)
            profile = await self.turn.count(source)
            return "\n".join(count_lines(name, source, profile, self.brief.profile))

        return await self._use("count", name, count_draft)

    async def _measure(self, arguments: Json) -> str:
        name, shape = str(arguments["candidate"]), " ".join(str(arguments["shape"]).split())
        first, last = (int(arguments[key]) for key in ("first", "last"))
        where = f", lines {first} to {last}" if first else ""

        async def measure() -> str:
            counters = counters_named(str(arguments["counters"]))
            candidate = self._candidate(name)
            lines = range(first, min(last, candidate.source.count("\n") + 1) + 1)
            if first and not lines:
                raise UserError(f"{name} has no lines {first} to {last}")
            profiles = await self._profiles(candidate, shape)
            told = (measured_lines(name, w, counters, lines) for w in profiles)
            return "\n".join(chain.from_iterable(told))

        subject = f"{name} on {shape or 'all workloads'}{where}"
        return await self._use("measure", subject, measure)

    async def _profiles(self, candidate: KnownCandidate, shape: str) -> tuple[WorkloadProfile, ...]:
        """What was counted of a candidate on some workloads, or is now on another shape."""
        if "=" not in shape:
            _require_counters(candidate)
            return tuple(_on(candidate.profile, shape))
        found = await self.turn.count(candidate.source, (shape_of(self.brief.task, shape),))
        return found.workloads

    async def _compare(self, arguments: Json) -> str:
        first, second = (str(arguments[key]) for key in ("first", "second"))
        workload = str(arguments["workload"]).strip()

        async def compare() -> str:
            old, new = self._candidate(first), self._candidate(second)
            before = {w.workload: w.counters for w in _on(old.profile, workload)}
            after = {w.workload: w.counters for w in _on(new.profile, workload)}
            lines: list[str] = []
            if self.turn.may_compare_times:
                timing = await self.turn.compare_times(old.hash, new.hash, tuple(before))
                lines += time_lines(second, timing, first)
            try:
                _require_counters(old)
                _require_counters(new)
            except UserError as error:
                return "\n".join([*lines, error.message])
            sums = add_counters(after.values()), add_counters(before.values())
            lines.append(
                f"{second} against {first}, counted on the emulator: {_compared(*sums, first)}"
            )
            lines += [
                f"workload {name}: {_compared(counters, before[name], first)}"
                for name, counters in after.items()
            ]
            return "\n".join(lines)

        subject = f"{first} with {second} on {workload or 'all workloads'}"
        return await self._use("compare", subject, compare)

    async def _read_hardware(self, arguments: Json) -> str:
        name, workload = str(arguments["candidate"]), str(arguments["workload"]).strip()

        async def read() -> str:
            candidate = self._candidate(name)
            (chosen,) = _on(candidate.profile, workload) if workload else [None]
            if chosen is None:
                raise UserError("it needs one workload")
            return hardware_text(await self.turn.read_hardware(candidate.hash, workload))

        return await self._use("read_hardware", f"{name} on {workload}", read)

    async def _disassemble(self, arguments: Json) -> str:
        name = str(arguments["draft"])
        first, last = (int(arguments[key]) for key in ("first", "last"))

        async def disassemble_draft() -> str:
            found = await self.turn.disassemble(self._source(name))
            return "\n".join(code_lines(name, found, first, last))

        return await self._use("disassemble", name, disassemble_draft)

    async def _time(self, arguments: Json) -> str:
        name = str(arguments["draft"])

        async def time_draft() -> str:
            return "\n".join(time_lines(name, await self.turn.time(self._source(name))))

        return await self._use("time", name, time_draft)

    async def _read_launch_plan(self, _arguments: Json) -> str:
        return await self._look_up("read_launch_plan", "", launch_plan_rules)

    async def _read_device(self, _arguments: Json) -> str:
        def text() -> str:
            return (
                f"{device_text(self.brief)}\nThe check runs on the emulator on every device; it "
                f"refuses code that needs one of these:\n{refusals()}"
            )

        return await self._look_up("read_device", "", text)

    async def _list_moves(self, _arguments: Json) -> str:
        assert self.moves is not None
        listing = self.moves.listing()
        text = f"moves that apply: {len(self.moves.proposals)}\n{listing}"
        return await self._look_up("list_moves", "", lambda: text)

    async def _preview_move(self, arguments: Json) -> str:
        moves, name = self.moves, str(arguments["name"])
        assert moves is not None

        def text() -> str:
            preview = moves.preview(name)
            proposal = moves.get(name)
            assert proposal is not None
            self.drafts[name] = proposal.source
            return f"its code is the draft {name}\n{preview}"

        return await self._look_up("preview_move", name, text)

    async def _search_memory(self, arguments: Json) -> str:
        operator, about = (" ".join(str(arguments[key]).split()) for key in ("operator", "about"))

        def text() -> str:
            found = self.turn.recall(operator, about)
            if not found:
                return "nothing in the memory of this machine fits"
            return "\n".join(one.describe() for one in found)

        subject = in_words(": ".join(filter(None, (operator, about))), MAX_SUBJECT)
        return await self._look_up("search_memory", subject, text)

    async def _look_up(self, tool: str, subject: str, text: Callable[[], str]) -> str:
        async def answer() -> str:
            return text()

        return await self._use(tool, subject, answer)


def tools_text(box: Toolbox | None) -> str:
    """What an agent is told of its tools; "" where it has none."""
    if box is None or not box.specs:
        return ""
    limits = _limits(box.turn.limits)
    if box.role is not Role.PROFILING:
        return compose("look_tested" if box.role is Role.TESTING else "tools", limits, {})
    candidates = "\n".join(f"{c.name}: {c.about}" for c in box.brief.candidates)
    return compose("measure", limits, {"candidates": Data("candidates", candidates)})


def _limits(limits: ToolLimits) -> dict[str, str]:
    return {
        "calls": str(limits.calls),
        "seconds": f"{limits.seconds:g}",
        "tokens": f"{limits.tokens:,}",
    }


def check_text(checked: Checked) -> str:
    """How a check of a draft ended, with the first wrong elements of the first failed cases."""
    failed = [r for r in checked.results if not r.outcome.ok]
    if not failed and checked.passed:
        return f"passed {len(checked.results)} cases"
    lines = [f"failed: {checked.report.message}"]
    return "\n".join([*lines, *(line for result in failed for line in case_lines(result))])


def case_lines(result: CaseResult) -> Iterator[str]:
    """A failed case: its sizes, why it exists, and what is wrong, a line each."""
    case = result.case
    sizes = ", ".join(f"{name} = {size}" for name, size in case.dims.items())
    yield f"case {case.id} ({sizes}; {case.why}): {result.message}"
    for output in result.outputs:
        yield from (f"    {line}" for line in output.describe_wrong())


def count_lines(name: str, source: str, profile: Profile, base: Profile | None) -> Iterator[str]:
    """Counters of a draft against the base's, by workload, then by line; and wasted bytes."""
    before = base.workloads if base is not None and not base.uncounted else ()
    known = {w.workload: w.counters for w in before}
    counters = add_counters(w.counters for w in profile.workloads)
    of_base = add_counters(known.values()) if known else None
    yield f"{name}, counted, all workloads: {_compared(counters, of_base)}"
    for w in profile.workloads:
        yield f"workload {w.workload}: {_compared(w.counters, known.get(w.workload))}"
    for k in profile.kernels:
        yield (
            f"kernel {k.kernel}: {k.registers} registers, {k.spill_bytes} bytes spilled, "
            f"{k.shared_bytes} bytes of shared memory, occupancy {k.occupancy:.2f}"
        )
    for wasted in profile.wasted[:MAX_WASTED]:
        yield f"moved in vain: {wasted.describe()}"
    texts = source.split("\n")
    for (number, header), counted in hot_places(counters):
        text = texts[number - 1].strip() if not header and 0 < number <= len(texts) else header
        yield f"line {number}: {clipped(text, 100)}: {counted}"


def counters_named(text: str) -> tuple[str, ...]:
    """The counters that a text names; all where it is empty. Raises UserError."""
    names = ["_".join(part.split()) for part in text.split(",") if part.strip()]
    for name in names:
        if name not in COUNTED:
            raise UserError(f"there is no counter '{name}'", hint=nearest(name, COUNTED))
    return tuple(names) or COUNTED


def shape_of(task: KernelTask, text: str) -> Workload:
    """The shape that is written as in "rows=7, d=4096", in the type of the first workload.

    Raises UserError for one that the contract does not allow, or too large to be counted soon.
    """
    given = [part.partition("=") for part in text.split(",")]
    try:
        dims = {name.strip(): int(size) for name, _, size in given}
    except ValueError:
        raise UserError(f"'{text}' is no shape: write all sizes as in rows=7, d=4096") from None
    for name in dims.keys() ^ task.dims.keys():
        problem = "is missing" if name in task.dims else "is no size of the task"
        raise UserError(f"{name} {problem}: a shape has {', '.join(task.dims)}")
    if not all(0 <= size <= LARGEST_SIZE for size in dims.values()):
        raise UserError(f"sizes go from 0 to {LARGEST_SIZE}")
    dims, dtype = {name: dims[name] for name in task.dims}, task.workloads[0].dtype
    if violated := task.violated(dims, dtype):
        raise UserError(f"it breaks the contract: {violated}")
    one_row = {**dims, task.rows: 1} if task.rows else dims
    elements = task.elements(one_row, dtype)
    if elements > MAX_ELEMENTS:
        raise UserError(f"its row has {elements} elements; {MAX_ELEMENTS} can be counted")
    return Workload(",".join(f"{name}={size}" for name, size in dims.items()), dims, dtype)


def _require_counters(candidate: KnownCandidate) -> None:
    """Raises UserError for a candidate that runs on a GPU and cannot be counted."""
    if why := candidate.profile.uncounted:
        raise UserError(f"{candidate.name} was not counted: {why}")


def _on(profile: Profile, workload: str) -> list[WorkloadProfile]:
    """What was counted on one workload, or on all. Raises UserError for an unknown one."""
    names = [w.workload for w in profile.workloads]
    if workload and workload not in names:
        raise UserError(f"there is no workload '{workload}'", hint=nearest(workload, names))
    return [w for w in profile.workloads if workload in ("", w.workload)]


def measured_lines(
    name: str, profile: WorkloadProfile, counters: tuple[str, ...], lines: range
) -> Iterator[str]:
    """Some counters of a candidate on one shape, then line by line."""
    dims = ", ".join(f"{dim} = {size}" for dim, size in profile.dims.items())
    yield (
        f"{name} on {profile.workload} (counted on the emulator with {dims}; {profile.blocks} "
        f"blocks of {profile.threads} "
        f"threads in full size): {_chosen_counters(profile.counters, counters)}"
    )
    for number in lines:
        at_line = profile.counters.at(range(number, number + 1))
        if at_line.warp_instructions or at_line.requests:
            yield f"    line {number}: {_chosen_counters(at_line, counters)}"


def _chosen_counters(counters: Counters, names: tuple[str, ...]) -> str:
    return ", ".join(f"{getattr(counters, name):.10g} {name}" for name in names)


def _compared(counters: Counters, base: Counters | None, of: str = BASE) -> str:
    """The counts of one workload, with the base's where they differ."""
    if base is None:
        return counters_text(counters)
    words = []
    for key in COMPARED:
        new, old = (int(getattr(c, key)) for c in (counters, base))
        if not new and not old:
            continue
        change = f" ({of} {old}, {new / old - 1:+.1%})" if old and new != old else ""
        change = f" ({of} {old})" if not old and new else change
        words.append(f"{new} {key.replace('_', ' ')}{change}")
    return ", ".join(words)


def code_lines(name: str, found: Disassembly, first: int, last: int) -> Iterator[str]:
    """A histogram of each kernel, and the instructions of some source lines."""
    if not found.available:
        raise UserError(f"{name} has no machine code here: {found.problem}", hint=found.remedy)
    for kernel in found.kernels:
        rows = ", ".join(
            f"{row.count} {row.name}" + (f" ({row.in_loops} in loops)" if row.in_loops else "")
            for row in kernel.histogram
        )
        yield f"kernel {kernel.name}: {rows}"
    by_line = instructions_by_line(found.kernels)
    shown = [(n, i) for n in range(first, last + 1) if n for i in by_line.get(n, ())]
    for number, instruction in shown[:MAX_INSTRUCTIONS]:
        yield f"line {number}: {instruction.text}"
    if len(shown) > MAX_INSTRUCTIONS:
        yield f"[{len(shown) - MAX_INSTRUCTIONS} instructions more: ask for fewer lines]"


def time_lines(name: str, timing: Timing, base: str = BASE) -> Iterator[str]:
    """Paired times of a draft or a candidate, by workload."""
    mean = timing.speedup
    yield (
        f"{name} against {base} on {timing.gpu}, {base}'s time over its: {mean.value:.3f} "
        f"[{mean.low:.3f}, {mean.high:.3f}], {timing.verdict.value}"
    )
    yield from timing.reasons
    for w in timing.workloads:
        ratio = w.cold.speedup
        yield (
            f"workload {w.workload}: {ratio.value:.3f} [{ratio.low:.3f}, {ratio.high:.3f}], "
            f"{w.cold.candidate_us:.2f} us"
        )


def _spec(name: str, description: str) -> ToolSpec:
    """In the strict dialect: every argument is required, and there are no others."""
    arguments = ARGUMENTS[name]
    properties = {key: {"type": t, "description": about} for key, (t, about) in arguments.items()}
    schema = {"type": "object", "properties": properties, "required": [*arguments]}
    return ToolSpec(name, description, {**schema, "additionalProperties": False})


def open_toolbox(
    brief: Brief,
    role: Role,
    moves: OfferedMoves | None = None,
    drafts: Mapping[str, str] = NO_DRAFTS,
) -> Toolbox | None:
    """The tools of a turn that begins now, with the drafts that there are; None without tools."""
    if brief.bench is None:
        return None
    return Toolbox(brief.bench.begin(role), brief, role, moves, dict(drafts))
