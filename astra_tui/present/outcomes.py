"""What was tried, and how it ended: a machine, an export, the gate, a session tried again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from astra_tui.model.audit import AuditSummary, Group
from astra_tui.model.digest import short
from astra_tui.model.environment import Difference, Health, Probe, lacking_probes
from astra_tui.model.export import DeliveryReport, ExportReport, ExportStep
from astra_tui.model.verification import CandidateVerification, TimingPair
from astra_tui.present import document as doc
from astra_tui.present.numbers import count, percent, pluralised, significant
from astra_tui.present.timing import speedup_told
from astra_tui.present.tones import Phrase, Tone, phrase_of
from astra_tui.sessions.integrity import Integrity
from astra_tui.sessions.signing import Signed

# -- a machine -------------------------------------------------------------------------------------


def doctor_blocks(probes: Sequence[Probe]) -> list[doc.Block]:
    """A row a probe, with what is missing, what it would add and how to get it; then the sum."""
    rows: list[doc.Row] = []
    for probe in probes:
        rows.append((phrase_of(probe.health), probe.name, probe.detail))
        remarks = {"for": probe.gives, "needs": probe.remedy}
        if probe.health is not Health.OK:
            rows += [(None, f"  {what}", text) for what, text in remarks.items() if text]
    lacking = ", ".join(lacking_probes(probes))
    told = "kernels can be checked here; try: astra-tui check silu_and_mul"
    if lacking:
        told = f"kernels cannot be checked here before this works: {lacking}"
    return [doc.table(("", "", ""), rows), *doc.paragraphs(told)]


def export_blocks(report: ExportReport) -> list[doc.Block]:
    """Each check with its outcome, then the files; where a check failed, that nothing is left."""
    title = f"{report.task}, candidate {short(report.candidate)}, as {report.format.value}"
    return [*doc.paragraphs(title), *steps_blocks(report.steps), *_written(report)]


def delivery_blocks(report: DeliveryReport) -> list[doc.Block]:
    """What it stands behind, each check with its outcome, then the files."""
    title = f"{report.task}, candidate {short(report.candidate)}, behind {report.api}"
    measured = [a for a in report.archs if report.measured and a.startswith(report.measured)]
    archs = (f"{a} ({'measured' if a in measured else 'not measured'})" for a in report.archs)
    facts = doc.items(
        f"written against {', '.join(report.pinned)}",
        f"machine code for {', '.join(archs)}",
        f"off with {report.switch}=0",
    )
    return [*doc.paragraphs(title), *facts, *steps_blocks(report.steps), *_written(report)]


def _written(report: ExportReport | DeliveryReport) -> list[doc.Block]:
    if not report.folder:
        return doc.paragraphs("a check failed: nothing was written")
    return [*doc.paragraphs(f"written to {report.folder}:"), *doc.items(*report.files)]


def steps_blocks(steps: Sequence[ExportStep]) -> list[doc.Block]:
    """Each check with its outcome."""
    rows = [(phrase_of(step.outcome), step.name, step.detail) for step in steps]
    return [doc.table(("", "", ""), rows)] if rows else []


_FAILURES = {
    Group.PLANTED: "wrong kernels were not caught",
    Group.HONEST: "right kernels did not pass",
    Group.MUTANT: "mutants were not caught",
}


def audit_blocks(summary: AuditSummary, messages: Mapping[str, str]) -> list[doc.Block]:
    """A row for each kind, then every kernel that speaks against the gate, with its reason."""
    head = summary.head
    rows: list[doc.Record] = []
    for kind in summary.kinds:
        ended = ("judged", "wrong", "inconclusive", "void", "hang")
        counts = {n: getattr(kind, n) or None for n in ended}
        row = {"group": kind.group.value, "kind": kind.kind, **counts}
        rows.append({**row, "failures": len(kind.failures) or None})
    where = f"gate {short(head.gate)} on {head.device}, {head.compiler}; {head.machine}"
    blocks: list[doc.Block] = [*doc.paragraphs(where), doc.records(rows)]
    for group, words in _FAILURES.items():
        names = [n for k in summary.kinds if k.group is group for n in k.failures]
        judged = sum(k.judged for k in summary.kinds if k.group is group)
        failed = doc.paragraphs(*(f"{name}: {messages.get(name, '')}" for name in names))
        if judged:
            told = Phrase(f"{len(names)} of {judged} {words}", Tone.BAD if names else Tone.GOOD)
            blocks.append(doc.Entry((f"{group.value}: ", told), failed))
    if left_out := sum(k.not_counted for k in summary.kinds):
        mutants = pluralised(left_out, "mutant")
        blocks += doc.paragraphs(f"not counted: {mutants} that do not compile, or change nothing")
    return blocks


def integrity_blocks(integrity: Integrity, signed: Signed | None) -> list[doc.Block]:
    """What was looked at, and by whose key the session is signed."""
    seen = (
        f"{pluralised(integrity.events, 'event')}, {pluralised(integrity.texts, 'text')}, "
        f"{pluralised(integrity.closings, 'closing')}; checksum {integrity.seal or 'none'}"
    )
    by = "none; checksums are no proof: anyone can compute them again"
    if signed is not None:
        named = "one of the keys that were named"
        known = named if signed.trusted else "see that it is who you think"
        by = f"{signed.fingerprint}, {count(signed.lines)} lines; {known}"
    return [doc.fields({"journal": seen, "signature": by})]


def differences_blocks(found: Sequence[Difference]) -> list[doc.Block]:
    """What is not as it was when the session ran, one row each."""
    if not found:
        return doc.paragraphs("differs: nothing that is known of the machine")
    rows = ((each.what, each.recorded, each.here) for each in found)
    return [doc.table(("differs", "recorded", "here"), rows)]


def verification_blocks(verified: CandidateVerification) -> list[doc.Block]:
    """One candidate: recorded against measured here."""
    where = f"round {verified.round}" if verified.round else "baseline"
    recorded = (phrase_of(verified.recorded),) if verified.recorded else ("not recorded",)
    check: doc.Line = (
        "check: ", phrase_of(verified.measured), " (recorded: ", *recorded,
        f"), {pluralised(verified.cases, 'case')}; largest error "
        f"{significant(verified.worst_measured)} of what is allowed "
        f"(recorded: {significant(verified.worst_recorded)})",
    )  # fmt: skip
    facts = doc.paragraphs(check)
    if verified.counters:
        rows = ((c.name.replace("_", " "), c.measured, c.recorded) for c in verified.counters)
        facts.append(doc.table(("counter", "here", "recorded"), rows))
    facts += doc.paragraphs(*map(_timing, verified.timings))
    facts += doc.paragraphs(*(f"note: {said}" for said in verified.notes))
    wrong = Phrase("disagrees", Tone.BAD)
    facts += doc.paragraphs(*((wrong, f": {problem}") for problem in verified.problems))
    if verified.agrees:
        told = "agrees" if verified.counters_compared else "agrees in what was compared"
        facts += doc.paragraphs((Phrase(told, Tone.GOOD),))
    return doc.sections({f"{where}  {short(verified.candidate)}": facts})


def _timing(pair: TimingPair) -> doc.Line:
    head = f"time against {short(pair.base)}: "
    recorded = *speedup_told(pair.recorded), ")"
    if pair.measured is None:
        return (head, "not timed here (recorded: ", *recorded)
    apart = f"; {percent(pair.tolerance, 1)} apart is allowed"
    return (head, *speedup_told(pair.measured), " (recorded: ", *recorded, apart)


def verification_words(candidates: Sequence[CandidateVerification]) -> str:
    """What all of them together amount to, as in "as recorded: checks 3 of 3"."""
    wrong = [c for c in candidates if not c.agrees]
    if wrong:
        names = ", ".join(short(c.candidate) for c in wrong)
        return f"{len(wrong)} of {len(candidates)} accepted candidates disagree: {names}"
    compared = {
        "checks": [True for _ in candidates],
        "counters": [c.counters_compared for c in candidates],
        "timings": [t.measured is not None for c in candidates for t in c.timings],
    }
    found = [f"{name} {sum(did)} of {len(did)}" for name, did in compared.items() if any(did)]
    left = [f"{name} of {did.count(False)}" for name, did in compared.items() if not all(did)]
    text = f"as recorded: {', '.join(found)}" if candidates else "nothing was accepted"
    return text + (f"; not compared: {', '.join(left)}" if left else "")
