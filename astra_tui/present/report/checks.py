"""The tests: what every version had to pass, and where it failed."""

from __future__ import annotations

from astra_tui.model.check import CheckVerdict
from astra_tui.model.events import CheckFinished
from astra_tui.model.state import CandidateState
from astra_tui.present import document as doc
from astra_tui.present.checks import diagnostics_blocks, failures_blocks, open_conditions_blocks
from astra_tui.present.numbers import decimal, pluralised, short
from astra_tui.present.report.facts import Facts

_MAX_DIAGNOSTICS = 20

_TEXT = (
    "Outputs are compared with a float64 reference. The worst error is a fraction of what is "
    "allowed there: above the bound the output is wrong. Fakes are outputs that no honest kernel "
    "would produce; the cases of a check have to reject them."
)


def checks_section(facts: Facts) -> doc.Section:
    """A row for each version that was checked, and the cases that failed."""
    checked = _versions(facts)
    if not checked:
        return doc.Section("Tests", "tests", (doc.Paragraph(("Nothing was checked.",)),))
    columns = (
        "version", "source", "verdict", "cases passed", "worst error", "bound", "in case",
        "bit for bit", "fakes caught", "seconds",
    )  # fmt: skip
    rows = (_row(name, version) for name, version in checked)
    blocks: list[doc.Block] = [doc.Paragraph((_TEXT,)), doc.table(columns, rows, "Checks")]
    blocks += _rulings(checked)
    blocks += [d for name, version in checked for d in _failures(name, version)]
    return doc.Section("Tests", "tests", tuple(blocks))


def _versions(facts: Facts) -> list[tuple[str, CandidateState]]:
    """Every version with a finished check once, under its first name."""
    named = {facts.baseline.hash: "baseline"}
    for entry in facts.reported:
        for attempt in entry.proposal.attempts:
            hash_ = getattr(attempt, "candidate", "")
            if hash_:
                named.setdefault(hash_, f"round {entry.label}")
    for final in facts.finals:
        named.setdefault(final.timing.base, final.beside)
    versions = [(name, facts.state.candidate(hash_)) for hash_, name in named.items()]
    return [(name, version) for name, version in versions if version.check is not None]


def _row(name: str, version: CandidateState) -> tuple[doc.Cell, ...]:
    check = version.check
    assert check is not None
    passed = sum(r.outcome.ok for r in version.results)
    worst = [(r, r.worst) for r in version.results if r.worst is not None]
    case, error = max(worst, key=lambda w: w[1].error / (w[1].allowed or 1.0), default=(None, None))
    bitwise = sum(p.ok and p.bitwise for p in check.properties)
    caught = sum(f.caught for f in check.fakes)
    return (
        name,
        doc.Code(short(version.hash)),
        doc.badge(check.verdict),
        f"{passed:,} of {version.cases:,}",
        doc.number(error.error, decimal, 3) if error else None,
        doc.number(error.allowed, decimal, 2) if error else None,
        case.case.id if case else None,
        f"{bitwise} of {len(check.properties)} properties" if check.properties else None,
        f"{caught} of {len(check.fakes)}" if check.fakes else None,
        doc.number(check.seconds, decimal),
    )


def _rulings(checked: list[tuple[str, CandidateState]]) -> list[doc.Block]:
    """What an engineer accepts in task.toml, and the findings that these rulings let pass."""
    checks = [v.check for _, v in checked if v.check is not None]
    rulings = dict.fromkeys(r.describe() for check in checks for r in check.accepted)
    passed = [
        (name, found.describe())
        for name, version in checked
        for result in version.results
        for found in result.findings
        if found.accepted
    ]
    blocks: list[doc.Block] = [
        doc.Paragraph((f"Accepted in task.toml: {text}",)) for text in rulings
    ]
    if passed:
        columns = ("version", "finding")
        blocks.append(doc.table(columns, dict.fromkeys(passed), "Findings that were accepted"))
    return blocks


def _failures(name: str, version: CandidateState) -> list[doc.Block]:
    blocks: list[doc.Block] = []
    check, compilation = version.check, version.compilation
    if compilation is not None and not compilation.ok:
        said = diagnostics_blocks(compilation.diagnostics[:_MAX_DIAGNOSTICS])
        blocks.append(doc.Details(f"{name} does not compile", tuple(said)))
    if version.failures:
        title = f"{name}: {pluralised(len(version.failures), 'failed case')}"
        blocks.append(doc.Details(title, tuple(failures_blocks(version.failures))))
    if check is None:
        return blocks
    if check.verdict in (CheckVerdict.INCONCLUSIVE, CheckVerdict.UNSUPPORTED):
        blocks.append(doc.Paragraph((f"{name}: {check.message}",)))
    if check.open_conditions:
        title = f"{name}: {pluralised(len(check.open_conditions), 'open condition')}"
        blocks.append(doc.Details(title, tuple(open_conditions_blocks(check.open_conditions))))
    return blocks + _at_size(name, check)


def _at_size(name: str, check: CheckFinished) -> list[doc.Block]:
    """How each workload went at its own size, and how much of it ran."""
    if not check.full_size:
        return []
    rows = ((r.workload, doc.badge(r.outcome), r.message, r.extent) for r in check.full_size)
    columns = ("workload", "outcome", "message", "how much ran")
    run = doc.table(columns, rows, f"Workloads of {name} at their own sizes")
    return [doc.Details(f"{name}: workloads at their own sizes", (run,))]
