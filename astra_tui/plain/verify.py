"""What the verification of a session found, in lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from astra_tui.model.environment import Difference
from astra_tui.model.timing import Timing
from astra_tui.model.verification import CandidateVerification, TimingPair
from astra_tui.plain.console import console, print_table, table
from astra_tui.plain.output import note, visible
from astra_tui.present.numbers import percent, short, significant, speedup
from astra_tui.present.words import timing_verdict
from astra_tui.sessions.integrity import Integrity
from astra_tui.sessions.signing import Signed


def print_integrity(integrity: Integrity) -> None:
    """What was looked at; on stderr every place that was altered."""
    console().print(
        f"journal   {integrity.events:,} events, {integrity.texts} texts, "
        f"{integrity.closings} closings; checksum {integrity.seal or 'none'}"
    )
    for flaw in integrity.flaws:
        note(flaw.describe())


def print_signature(signed: Signed | None) -> None:
    """By whose key the session is signed."""
    if signed is None:
        console().print("signature none; checksums are no proof: anyone can compute them again")
        return
    known = "one of the keys that were named" if signed.trusted else "see that it is who you think"
    console().print(f"signature {signed.fingerprint}, {signed.lines:,} lines; {known}")


def print_differences(found: Sequence[Difference], title: str = "differs") -> None:
    """What is not as it was when the session ran, one line each."""
    if not found:
        console().print(f"{title}   nothing that is known of the machine")
        return
    rows = table(title, "recorded", "here")
    for difference in found:
        rows.add_row(*map(visible, (difference.what, difference.recorded, difference.here)))
    print_table(console(), rows)


def print_candidate(verified: CandidateVerification) -> None:
    """One candidate: old against new."""
    out = console()
    out.print("")
    where = f"round {verified.round}" if verified.round else "baseline"
    out.print(f"{where}  {short(verified.candidate)}")
    recorded = verified.recorded.value if verified.recorded else "not recorded"
    out.print(
        f"  check     {verified.measured.value} (recorded: {recorded}), {verified.cases} cases; "
        f"largest error {significant(verified.worst_measured)} of what is allowed "
        f"(recorded: {significant(verified.worst_recorded)})"
    )
    for line in (*_counters(verified), *map(_timing, verified.timings)):
        out.print(visible(line))
    for said in verified.notes:
        out.print(visible(f"  note      {said}"))
    for problem in verified.problems:
        out.print(visible(f"  DISAGREES {problem}"))
    if verified.agrees:
        out.print("  agrees" if verified.counters_compared else "  agrees in what was compared")


def _counters(verified: CandidateVerification) -> Iterator[str]:
    for number, pair in enumerate(verified.counters):
        head = "counters" if number == 0 else ""
        same = "" if pair.recorded == pair.measured else f" (recorded: {pair.recorded:,})"
        yield f"  {head:<9} {pair.name.replace('_', ' '):<18}{pair.measured:>16,}{same}"


def _timing(pair: TimingPair) -> str:
    head = f"  time      against {short(pair.base)}: "
    if pair.measured is None:
        return f"{head}not timed here (recorded: {_ratio(pair.recorded)})"
    return (
        f"{head}{_ratio(pair.measured)} (recorded: {_ratio(pair.recorded)}); "
        f"{percent(pair.tolerance, 1)} apart is allowed"
    )


def _ratio(timing: Timing) -> str:
    return f"{speedup(timing.speedup)} {timing_verdict(timing).words}"
