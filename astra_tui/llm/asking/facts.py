"""What is known, as text: the task, a profile, what was tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import Template

from astra_tui.llm.asking.prompts import Data, clipped, compose, prompt_text
from astra_tui.model.citations import check_citations
from astra_tui.model.counters import DURATION, AccessCount, Counters, NcuReport, Place, add_counters
from astra_tui.model.events import TimingFinished
from astra_tui.model.hunks import unified_diff
from astra_tui.model.launch import DEVICE_ATTRIBUTES, print_expression
from astra_tui.model.occupancy import MULTIPROCESSORS
from astra_tui.model.plan import Plan, places_words
from astra_tui.model.state import CandidateState
from astra_tui.model.task import Argument, KernelTask, ValueKind, Values
from astra_tui.model.team_protocol import Brief, Reading, SecondParent, Tried
from astra_tui.model.timing import Timing, TimingVerdict, mean_name
from astra_tui.model.verdict import Outcome, Profile
from astra_tui.model.verdict_thresholds import LARGEST_LOSS, MIN_DIFFERENCE, MOST_IDLE
from astra_tui.model.yardsticks import BEST, ShapeTimes, ShippedTimes

EMULATED = "sm_90"
HOT_LINES = 8
MAX_TRIED = 12
MAX_LOOKED_AT, MAX_COSTLY, MAX_CODE_LINE = 2, 3, 120
"""Of what was tried: how many are shown with their lines, lines of each, characters of a line."""
_TO_MEND = (Outcome.WORSE, Outcome.SAME, Outcome.INCONCLUSIVE)
MAX_CONSTRAINTS = 40
MAX_MERGE_DIFF = 8_000
"""Characters of the changes that a merge is shown."""
MAX_INCLUDED, AROUND, NUMBER = 8_000, 16, 8
"""Characters of files that a source includes, lines before and after a costly one, and characters
of a line's number."""
MAX_CHARACTERS = 600
"""Of one reason or note."""


def task_text(task: KernelTask) -> str:
    """The operator and its contract."""
    lines = [
        f"{task.name}: {task.summary}",
        f"T is one of {', '.join(d.value for d in task.dtypes)}.",
        *(
            f"size {d.name} ({d.about}): for example {', '.join(map(str, d.sizes))}"
            for d in task.dims.values()
        ),
        *(_argument_text(a) for a in task.args.values()),
        *(f"holds for every call: {condition}" for condition in task.accepts_text),
        *(
            f"tolerance {dtype.value}: atol {t.atol:g}, rtol {t.rtol:g}"
            for dtype, t in task.tolerances.items()
        ),
    ]
    return "\n".join(lines)


def profile_text(profile: Profile | None) -> str:
    """What a device counted, and where. It quotes nothing of the source."""
    if profile is None:
        return ""
    lines = [f"device: {profile.device}"]
    for w in profile.workloads:
        counted = "not counted" if profile.uncounted else counters_text(w.counters)
        dims = ", ".join(f"{name} = {size}" for name, size in w.dims.items())
        lines.append(
            f"workload {w.workload} (counted with {dims}, {w.dtype.value}; in full size "
            f"{w.blocks} blocks of {w.threads} threads, and {w.compulsory_bytes} bytes that any "
            f"kernel has to move): {counted}"
        )
        if w.waves is not None:
            lines[-1] += (
                f", {w.waves.waves:.2f} waves, of the last {100 * w.waves.tail:.0f} % empty"
            )
    for k in profile.kernels:
        lines.append(
            f"kernel {k.kernel}: {k.registers} registers, {k.spill_bytes} bytes spilled, "
            f"{k.shared_bytes} bytes of shared memory, occupancy {k.occupancy:.2f}"
            + (f", limited by {k.limited_by}" if k.limited_by and k.occupancy < 1 else "")
        )
    found = profile.wasted[:HOT_LINES]
    if found:
        lines.append("bytes that are moved in vain, each counted once a request:")
        lines += [wasted.describe() for wasted in found]
    if profile.uncounted:
        return "\n".join([*lines, f"counters are missing: {profile.uncounted}"])
    lines.append("hottest lines, all workloads together:")
    lines += hot_lines(add_counters(w.counters for w in profile.workloads))
    return "\n".join(lines)


def goal_text(brief: Brief) -> str:
    """What makes a version better where this session runs."""
    if not brief.gpu:
        return (
            Template(prompt_text("goal_counts"))
            .substitute(idle=f"{100 * MOST_IDLE:.0f} %")
            .rstrip()
        )
    weights = {w.name: w.weight for w in brief.task.workloads}
    mean = mean_name(weights.values())
    listed = ", ".join(f"{name} {weight:g}" for name, weight in weights.items())
    weighed = f" Weights of the workloads: {listed}." if mean == mean_name((1, 2)) else ""
    text = Template(prompt_text("goal_times")).substitute(
        mean=mean,
        weighed=weighed,
        threshold=f"{100 * MIN_DIFFERENCE:.1f} %",
        loss=f"{100 * LARGEST_LOSS:.0f} %",
    )
    return text.rstrip()


def device_text(brief: Brief) -> str:
    """What the device has, as far as it is known: a sheet of limits, for plans and code."""
    gpu, plan_has = brief.gpu, DEVICE_ATTRIBUTES
    if gpu is None:
        arch, count, l2 = EMULATED, plan_has["sm_count"], plan_has["l2_cache_bytes"]
        lines = [f"an emulator of an H100 ({arch}), {count} multiprocessors"]
    else:
        arch = "sm_{}{}".format(*gpu.compute_capability) if gpu.compute_capability else ""
        l2 = gpu.l2_bytes or 0
        lines = [f"{gpu.name or 'a GPU'} ({arch or 'unknown architecture'})"]
        if gpu.sm_count:
            lines[0] += f", {gpu.sm_count} multiprocessors"
        if gpu.memory_bytes:
            lines.append(f"{gpu.memory_bytes >> 30} GiB of memory")
        if bandwidth := _copy_bandwidth(brief.timing):
            lines.append(bandwidth)
    if l2:
        lines.append(f"{l2 / 2**20:.4g} MiB of L2 cache")
    if (limits := MULTIPROCESSORS.get(arch)) is not None:
        lines.append(
            f"a multiprocessor holds {limits.warps} warps, {limits.blocks} blocks, "
            f"{limits.registers} registers and {limits.shared_bytes} bytes of shared memory"
        )
    if gpu is None or arch == EMULATED:
        lines.append(
            f"a block has at most {plan_has['max_threads_per_block']} threads and "
            f"{plan_has['max_shared_memory_per_block']} bytes of shared memory"
        )
    return "; ".join(lines)


def _copy_bandwidth(timing: Timing | None) -> str:
    """The bandwidth of a copy of as many bytes as the largest workload moves, both ways."""
    floors = [(w.floor, w.workload) for w in timing.workloads if w.floor] if timing else []
    if not floors:
        return ""
    floor, workload = max(floors, key=lambda pair: pair[0].compulsory_bytes)
    tera = floor.compulsory_bytes / floor.copy_us / 1e6
    return f"a copy of the {floor.compulsory_bytes} bytes of {workload} reaches {tera:.2f} TB/s"


def timing_text(timing: Timing | None) -> str:
    """What a source takes on the GPU, against what no kernel goes below there."""
    if timing is None:
        return ""
    lines = [f"times on {timing.gpu}, microseconds a launch, caches cold:"]
    for w in timing.workloads:
        text = f"workload {w.workload}: {w.cold.candidate_us:.2f} us"
        if w.floor is not None:
            of_floor = w.of_floor or 0.0
            text += (
                f"; a copy of as many bytes takes {w.floor.us:.2f} us: {100 * of_floor:.0f} % of "
                "a copy's speed"
            )
        if w.producer:
            text += ", with a kernel before it that writes part of its inputs"
        if w.chained is not None:
            text += f"; after itself alone {w.chained.candidate_us:.2f} us"
        if w.warm is not None:
            text += f"; with warm caches {w.warm.candidate_us:.2f} us"
        lines.append(text)
    return "\n".join(lines)


def shipped_text(shipped: ShippedTimes | None, launches: Mapping[str, str]) -> str:
    """The fastest kernel that others ship for each workload, its launch, and who is faster now."""
    if shipped is None:
        return ""
    if shipped.times is None:
        return f"kernels that others ship were not timed: {_reasons(shipped.not_timed)}"
    shapes = shipped.times.shapes
    lines = [
        "against kernels that others ship, each launch after a kernel that writes part of its "
        "inputs, caches cold:",
        *(f"workload {shape.workload}: {_rival_text(shape)}" for shape in shapes),
    ]
    named = dict.fromkeys(shape.fastest[BEST].name for shape in shapes if BEST in shape.fastest)
    lines += [f"{name} is launched with {launches[name]}" for name in named if name in launches]
    return "\n".join(lines)


def _rival_text(shape: ShapeTimes) -> str:
    """The fastest shipped kernel of one workload against the source."""
    times = {version.name: version for version in shape.versions}
    found, own = shape.fastest.get(BEST), times.get(BEST)
    if found is None or own is None:
        why = _reasons(shape.not_timed) or "a timing is not valid"
        timed = [f"{v.name} {v.us:.2f} us" for v in times.values() if v.shipped and not v.caveats]
        return f"none can be called the fastest ({why}); timed were: {', '.join(timed) or 'none'}"
    ratio = found.speedup
    return (
        f"the fastest is {found.name}: {times[found.name].us:.2f} us, this source {own.us:.2f} us; "
        f"{ratio.value:.3f}x ({ratio.low:.3f} to {ratio.high:.3f}), this source is "
        f"{_AGAINST_SHIPPED[found.verdict]}"
    )


def _reasons(missing: Mapping[str, str]) -> str:
    return "; ".join(f"{name}: {why}" for name, why in missing.items())


_AGAINST_SHIPPED = {
    TimingVerdict.FASTER: "faster",
    TimingVerdict.SLOWER: "slower",
    TimingVerdict.INCONCLUSIVE: "neither faster nor slower for sure",
}


def hardware_text(report: NcuReport | None) -> str:
    """What ncu read on the GPU, with what it did not. Its durations are no times, and left out."""
    if report is None:
        return ""
    if not report.available:
        return f"hardware counters: none were read: {report.problem}"
    lines = [f"hardware counters of workload {report.workload}, read by ncu, launch by launch:"]
    for launch in report.launches:
        grid, block = (" x ".join(map(str, size)) for size in (launch.grid, launch.block))
        lines.append(f"kernel {launch.kernel}, {grid} blocks of {block} threads:")
        lines += [
            f"{name} = {metric.value:.10g} {metric.unit}".rstrip()
            for name, metric in launch.metrics.items()
            if name != DURATION
        ]
        if launch.excess_shared_wavefronts is not None:
            excess = launch.excess_shared_wavefronts
            lines.append(f"passes over shared memory that bank conflicts cost: {excess:g}")
        lines += [f"{name} was not read: {why}" for name, why in launch.missing.items()]
    return "\n".join(lines)


def measured_text(brief: Brief) -> str:
    """All that was measured on the source to improve."""
    texts = (
        profile_text(brief.profile),
        timing_text(brief.timing),
        shipped_text(brief.shipped, brief.launches),
        hardware_text(brief.hardware),
    )
    return "\n".join(text for text in texts if text)


def measured_base(brief: Brief) -> CandidateState:
    """The source to improve with what was measured of it, to look up what is cited of it."""
    timings = (TimingFinished(brief.timing),) if brief.timing is not None else ()
    return CandidateState(
        brief.base, profile=brief.profile, hardware=brief.hardware, timings=timings
    )


def reading_text(reading: Reading | None, base: CandidateState) -> str:
    """What the profiling agent chose, each part with where it is from."""
    if reading is None:
        return ""
    chosen = reading.selection
    lines = [f"bottleneck: {reading.text}"]
    if chosen.workload:
        lines.append(f"the workload that decides: {chosen.workload}")
    if chosen.places:
        lines.append(f"it is caused by {places_words(chosen.places)}")
    for observed in chosen.evidence:
        lines.append(f"evidence: {observed.sentence}")
        lines += [f"    {found.describe()}" for found in check_citations(observed, base)]
    for one in chosen.measured:
        lines.append(f"measured for this in round {chosen.round}, {one.describe()}:")
        lines += [f"    {line}" for line in one.answer.splitlines()]
    return "\n".join(lines)


def counters_text(counters: Counters) -> str:
    """The counts of one workload."""
    return (
        f"{counters.sectors} sectors, {counters.requests} requests, efficiency "
        f"{counters.sector_efficiency:.2f}, {counters.warp_instructions} instructions, "
        f"{counters.shared_requests} shared requests, {counters.bank_conflicts} bank conflicts, "
        f"{counters.barriers} barriers, {counters.shuffles} shuffles"
    )


def hot_lines(counters: Counters) -> list[str]:
    """The lines with most sectors, then most instructions, with their shares."""
    return [
        f"{header or f'line {number}'}: {text}" for (number, header), text in hot_places(counters)
    ]


def hot_places(counters: Counters) -> list[tuple[Place, str]]:
    """The same, each with its place."""
    sectors = {line.place: 0 for line in counters.lines}
    for access in counters.accesses:
        if access.in_global:
            sectors[access.place] = sectors.get(access.place, 0) + access.sectors
    instructions = {line.place: line.warp_instructions for line in counters.lines}
    hottest = sorted(sectors, key=lambda n: (-sectors[n], -instructions.get(n, 0), n))
    total = counters.warp_instructions or 1
    found = []
    for place in hottest[:HOT_LINES]:
        executed = instructions.get(place, 0)
        accesses = "".join(_access_text(a) for a in counters.accesses if a.place == place)
        share = f"{executed} instructions ({100 * executed / total:.0f} %)"
        found.append((place, f"{share}{accesses}"))
    return found


def included_text(brief: Brief) -> str:
    """Of the files that the source includes, the lines around those that cost most; "" for none.

    As many as fit in MAX_INCLUDED characters, the costliest first.
    """
    counters = add_counters(w.counters for w in brief.profile.workloads) if brief.profile else None
    places = [header for (_, header), _ in hot_places(counters)] if counters is not None else []
    shown: dict[str, set[int]] = {}
    left = MAX_INCLUDED
    for file, _, number in (place.rpartition(":") for place in places):
        if file not in brief.included:
            continue
        lines, at = brief.included[file].split("\n"), int(number)
        around = range(max(at - AROUND, 1), min(at + AROUND, len(lines)) + 1)
        new = set(around) - shown.get(file, set())
        size = sum(len(lines[n - 1]) + NUMBER for n in new)
        if size <= left:
            left -= size
            shown.setdefault(file, set()).update(new)
    if not shown:
        return ""
    parts = (_excerpt(file, brief.included[file], lines) for file, lines in shown.items())
    text = compose("included", {}, {"files": Data("included source", "\n".join(parts))})
    return f"\n\n{text.rstrip()}"


def _excerpt(file: str, text: str, shown: set[int]) -> str:
    """Some lines of a file with their numbers, and marks where others are left out."""
    lines = text.split("\n")
    out, last = [f"{file}:"], 0
    for number in sorted(shown):
        out += ["     ..."] if number != last + 1 else []
        out.append(f"{number:5d} | {lines[number - 1]}")
        last = number
    return "\n".join(out)


def tried_text(tried: Sequence[Tried]) -> str:
    """Earlier plans with their outcomes; a rejection's reason binds.

    Of the latest that did not make the source faster, the lines of their code that cost most: the
    idea may be good and a line of it bad.
    """
    known = tried[-MAX_TRIED:]
    looked_at = [
        t for t in known if t.outcome in _TO_MEND and t.profile and not t.profile.uncounted
    ][-MAX_LOOKED_AT:]
    lines = []
    for t in known:
        says = "; ".join(t.reasons) or "no reason was given"
        lines.append(
            f"round {t.round}, {t.outcome.value}{_standing(t)}: {t.plan.title}. {t.plan.change}\n"
            f"    {clipped(says, MAX_CHARACTERS)}"
        )
        if any(t is one for one in looked_at):
            lines += [f"    {line}" for line in _costly_lines(t)]
    return "\n".join(lines)


def _standing(tried: Tried) -> str:
    if tried.outcome is Outcome.REJECTED:
        return " (do not propose it again)"
    if tried.outcome is Outcome.BETTER:
        return " (the source has it)" if tried.in_base else " (the source does not have it)"
    return ""


def _costly_lines(tried: Tried) -> list[str]:
    """The lines of what was tried that move most, with their text."""
    assert tried.profile is not None
    texts = tried.code.split("\n")
    counters = add_counters(w.counters for w in tried.profile.workloads)
    found = [f"its code has {counters_text(counters)}; most of it in:"]
    for place, counted in hot_places(counters)[:MAX_COSTLY]:
        number, header = place
        text = texts[number - 1].strip() if not header and 0 < number <= len(texts) else header
        found.append(f"{clipped(text, MAX_CODE_LINE)}: {counted}")
    return found


def said_text(brief: Brief) -> str:
    """What the engineer said, for every role, oldest first."""
    said = (c.describe() for c in brief.constraints[-MAX_CONSTRAINTS:])
    return "\n".join(f"- {clipped(text, MAX_CHARACTERS)}" for text in said)


def merge_text(second: SecondParent | None) -> str:
    """What a round is to merge with the source; "" for a round that merges nothing."""
    if second is None:
        return ""
    diff = unified_diff(second.ancestor, second.source, "common ancestor", "other branch")
    gains = list(second.gains)
    if second.condition is not None:
        gains.append(f"when {print_expression(second.condition)}")
    text = compose(
        "merge",
        {},
        {
            "other": Data("kernel source of another branch", second.source),
            "done": Data("plans of another branch", "\n".join(second.done)),
            "diff": Data("changes of another branch", clipped(diff, MAX_MERGE_DIFF)),
            "gains": Data("gains of another branch", "\n".join(gains)),
        },
    )
    return f"\n\n{text.rstrip()}"


def plan_text(plan: Plan) -> str:
    """A plan as the coding agent reads it."""
    places = ", ".join(p.describe() for p in plan.places)
    return "\n".join(
        [
            f"title: {plan.title}",
            f"bottleneck: {plan.bottleneck}",
            *(f"evidence: {observed.sentence}" for observed in plan.observations),
            f"change: {plan.change}",
            *([f"lines of the source it was made for: {places}"] if places else []),
        ]
    )


def _argument_text(argument: Argument) -> str:
    about = f": {argument.about}" if argument.about else ""
    dtype = argument.dtype.value if argument.dtype else "T"
    if not argument.is_tensor:
        choices = ", ".join(f"{c:g}" for c in argument.choices)
        return f"argument {argument.name} (scalar {dtype}, such as {choices}){about}"
    shape = ", ".join(print_expression(size) for size in argument.shape)
    parts = [f"{argument.role.value}, {dtype}, shape [{shape}]"]
    if argument.is_read:
        parts.append(_values_text(argument.values))
    if argument.limit is not None:
        parts.append(f"magnitudes up to {argument.limit:g}")
    if argument.special:
        parts.append(f"may hold {', '.join(argument.special)}")
    if argument.strided:
        parts.append("rows may lie further apart")
    if argument.stable:
        parts.append("stable: complete long before a call")
    return f"argument {argument.name} ({'; '.join(parts)}){about}"


def _values_text(values: Values) -> str:
    if values.kind is ValueKind.CONSTANT:
        return f"constant {values.low:g}"
    if values.kind is ValueKind.DISTRIBUTION:
        return "a distribution: its rows sum to 1"
    low, high = values.low_text or f"{values.low:g}", values.high_text or f"{values.high:g}"
    distinct = f", no two alike in {values.distinct.value}" if values.distinct else ""
    apart = f", {values.apart} or more apart" if values.apart else ""
    return f"{values.kind.value} {low}, {high}{distinct}{apart}"


def _access_text(access: AccessCount) -> str:
    wide = "" if access.space == "bulk" else f" of {access.width} bytes a thread"
    text = f"; {access.space} {access.direction}{wide}: {access.requests} requests"
    if access.in_global:
        moved = 32 * access.sectors
        efficiency = f"{access.bytes / moved:.2f}" if moved else "1.00"
        return f"{text}, {access.sectors} sectors, efficiency {efficiency}"
    if access.space == "cluster":
        return f"{text}, in shared memory of other blocks"
    return f"{text}, {access.conflicts} bank conflicts"
