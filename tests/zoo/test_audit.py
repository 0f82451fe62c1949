"""The audit: what the gate says of a drawn part of the zoo, and results that can be trusted."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from astra_tui.emulator.device import Emulator
from astra_tui.lab.audit.gate import is_same_program
from astra_tui.lab.audit.running import (
    Item,
    Results,
    gate_identity,
    head_of,
    items_of,
    run_audit,
    select,
)
from astra_tui.lab.audit.zoo import Entry, Zoo, ZooError, read_zoo
from astra_tui.lab.check.oracle import Oracle
from astra_tui.lab.check.runner import Checker
from astra_tui.lab.compiler import Compiler
from astra_tui.model.audit import (
    AuditHead,
    AuditRecord,
    AuditSummary,
    Group,
    Outcome,
    summarise,
)
from astra_tui.model.check import CheckReport, CheckVerdict
from astra_tui.model.digest import content_hash
from astra_tui.model.errors import UserError
from astra_tui.model.findings import FindingKind
from astra_tui.model.settings import EMULATOR
from tests.conftest import ROOT

pytestmark = pytest.mark.usefixtures("warm_processes")

ZOO = Path(__file__).parent
HEAD = AuditHead("a" * 64, "NVRTC", EMULATOR, "here", "1", "2026-01-01")
RECORD = AuditRecord("x", Group.PLANTED, "races", "silu_and_mul", "0" * 64, Outcome.WRONG, "é", 0.5)

DRAWN = ((Group.PLANTED, 2), (Group.HONEST, 1), (Group.MUTANT, 2))
"""How many kernels of each group are put through the whole gate in every run of the tests."""


@pytest.fixture(scope="module")
def zoo() -> Zoo:
    return read_zoo(ZOO)


@pytest.fixture(scope="module")
def items(zoo: Zoo) -> tuple[Item, ...]:
    return items_of(zoo)


@cache
def gate() -> str:
    return gate_identity("")


def drawn(entries: list, count: int) -> list:
    """A part that is another one whenever the gate is another one."""
    return sorted(entries, key=lambda e: content_hash(f"{gate()} {e.id}"))[:count]


def drawn_task(zoo: Zoo) -> str:
    """One task, so that one reference starts; another one whenever the gate is another one."""
    return min({e.task for e in zoo.planted}, key=lambda t: content_hash(f"{gate()} {t}"))


# -- entries are what they say to be ---------------------------------------------------------------


@pytest.fixture(scope="module")
def checker(zoo: Zoo, compiler: Compiler) -> Iterator[Checker]:
    """Of the drawn task."""
    task = zoo.task(drawn_task(zoo))
    with Oracle(task) as oracle:
        yield Checker(task, Emulator(), compiler, oracle)


def on_witness(checker: Checker, entry: Entry, text: str) -> CheckReport:
    assert entry.witness is not None
    *_, report = checker.check(text, entry.id, (entry.witness.case(checker.task),))
    assert isinstance(report, CheckReport)
    return report


def test_planted_kernels_are_wrong_on_their_witnesses(zoo: Zoo, checker: Checker) -> None:
    of_task = [e for e in zoo.planted if e.task == drawn_task(zoo)]
    chosen = drawn([e for e in of_task if e.witness is not None], 6)
    assert len(chosen) == 6
    for entry in chosen:
        assert on_witness(checker, entry, entry.text).verdict is CheckVerdict.FAILED, entry.id


def test_dependent_launches_are_wrong_by_their_waits_alone(zoo: Zoo, checker: Checker) -> None:
    """Without `pdl=` launches run one after another, and each of these is right."""
    of_kind = [e for e in zoo.planted if e.kind == "dependent launches"]
    plain = {e.id: re.sub(r"\s+pdl=.*", "", e.text) for e in of_kind}
    assert all(plain[e.id] != e.text for e in of_kind)
    for entry in drawn([e for e in of_kind if e.task == drawn_task(zoo)], 4):
        early = on_witness(checker, entry, entry.text)
        kinds = {finding.kind for case in early.failed_cases for finding in case.findings}
        assert kinds == {FindingKind.BEFORE_WAIT}, entry.id
        assert on_witness(checker, entry, plain[entry.id]).verdict is CheckVerdict.PASSED, entry.id


def test_the_gate_catches_what_is_wrong_and_lets_honest_kernels_pass(
    zoo: Zoo, items: tuple[Item, ...], tmp_path: Path
) -> None:
    """Of one task; without what is known to get through, which docs/gate.md names."""
    named = known_failures()
    shown = {e.id for e in zoo.planted if e.witness is not None}
    of_task = [i for i in items if i.task == drawn_task(zoo) and i.id not in named]
    able = [i for i in of_task if i.group is not Group.PLANTED or i.id in shown]
    chosen = [
        item
        for group, count in DRAWN
        for item in drawn([i for i in able if i.group is group], count)
    ]
    assert len(chosen) == sum(count for _, count in DRAWN)
    results = Results(tmp_path / "audit.jsonl", head_of(EMULATOR, "any"))
    run_audit(zoo, chosen, results, EMULATOR)
    found = list(results.of(chosen))
    assert len(found) == len(chosen)
    assert [f"{r.id}: {r.outcome}: {r.message}" for r in found if r.fails] == []


def known_failures() -> frozenset[str]:
    """What the committed audits of the emulator let through, or accused."""
    files = (ROOT / "benchmarks" / "results").glob("audit_*.json")
    summaries = [msgspec.json.decode(f.read_bytes(), type=AuditSummary) for f in files]
    of_emulator = (s for s in summaries if s.head.device == EMULATOR)
    return frozenset(name for summary in of_emulator for name in summary.failures)


def test_a_kernel_without_end_is_a_hang_and_the_audit_continues(
    zoo: Zoo, items: tuple[Item, ...], tmp_path: Path
) -> None:
    chosen = select(items, (), ("silu-backwards", "silu-odd-block"))
    results = Results(tmp_path / "audit.jsonl", head_of(EMULATOR, "any"))
    run_audit(zoo, chosen, results, EMULATOR, seconds=0.05)
    assert [r.outcome for r in results.of(chosen)] == [Outcome.HANG, Outcome.HANG]
    assert all(r.fails for r in results.of(chosen))


# -- mutants ---------------------------------------------------------------------------------------


def test_the_same_program_is_told_from_another(zoo: Zoo, compiler: Compiler) -> None:
    text = (zoo.task_folder("silu_and_mul") / "baseline.cu").read_text()
    compiled = compiler.compile(text, ("silu_and_mul<__half>",))
    moved = text.replace("const int64_t step", "// a remark\n\n  const int64_t step")
    padded = text.replace("out[i] = ", "out[i + 0] = ")
    other = text.replace("i += step", "i += 2 * step")
    for changed, same in ((moved, True), (padded, True), (other, False)):
        assert changed != text
        compilation = compiler.compile(changed, ("silu_and_mul<__half>",))
        assert is_same_program(compiler, compilation, changed, text) is same
    plan = text.replace("block=128", "block=64")
    assert not is_same_program(compiler, compiled, plan, text)


def test_proofs_are_about_mutants_that_are_drawn(zoo: Zoo, items: tuple[Item, ...]) -> None:
    ids = {item.id for item in items if item.group is Group.MUTANT}
    assert set(zoo.proofs) <= ids
    assert all(len(reason) > 20 for reason in zoo.proofs.values())


# -- results ---------------------------------------------------------------------------------------


@given(st.integers(min_value=0, max_value=3), st.data())
def test_results_survive_a_cut_anywhere(count: int, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "audit.jsonl"
        results = Results(file, HEAD)
        for number in range(count):
            results.add(replace(RECORD, id=str(number)))
        whole = file.read_bytes()
        head = whole.index(b"\n") + 1
        cut = data.draw(st.integers(min_value=head, max_value=len(whole)))
        os.truncate(file, cut)
        kept = Results(file, HEAD)
        assert len(kept.records) == whole[head:cut].count(b"\n")
        kept.add(replace(RECORD, id="last"))
        assert len(Results(file, HEAD).records) == len(kept.records)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"gate": "b" * 64}, "the results of another gate"),
        ({"device": "cuda:0"}, "the results of another gate"),
    ],
)
def test_results_of_two_gates_are_not_mixed(
    tmp_path: Path, written: dict[str, str], message: str
) -> None:
    file = tmp_path / "audit.jsonl"
    Results(file, replace(HEAD, **written))
    with pytest.raises(UserError, match=message):
        Results(file, HEAD)


def test_a_line_that_is_no_record_is_named(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    Results(file, HEAD).add(RECORD)
    file.write_text(file.read_text().replace('"wrong"', '"right"'))
    with pytest.raises(UserError, match=re.escape(f"{file}:2: ")):
        Results(file, HEAD)


def test_what_changed_and_what_was_trouble_is_judged_again(tmp_path: Path) -> None:
    before, after = (Item("x", Group.PLANTED, "races", "silu_and_mul", t) for t in ("a", "b"))
    results = Results(tmp_path / "audit.jsonl", HEAD)
    results.add(replace(RECORD, text=content_hash("a")))
    assert not results.lacks(before)
    assert results.lacks(after)
    results.add(replace(RECORD, text=content_hash("b"), outcome=Outcome.TROUBLE))
    assert results.lacks(after)
    assert [r.outcome for r in results.of([before, after])] == [Outcome.WRONG, Outcome.TROUBLE]


def test_a_summary_counts_what_fails() -> None:
    outcomes = {
        Group.PLANTED: (Outcome.WRONG, Outcome.INCONCLUSIVE, Outcome.PASSED, Outcome.HANG),
        Group.HONEST: (Outcome.PASSED, Outcome.INCONCLUSIVE),
        Group.MUTANT: (Outcome.SAME_PROGRAM, Outcome.NOT_COMPILED, Outcome.VOID, Outcome.TROUBLE),
    }
    records = [
        replace(RECORD, id=f"{group}{number}", group=group, outcome=outcome)
        for group, several in outcomes.items()
        for number, outcome in enumerate(several)
    ]
    summary = summarise(HEAD, "audit", records)
    assert summary.failures == ("planted2", "planted3", "honest1", "mutant3")
    assert [(k.judged, k.not_counted) for k in summary.kinds] == [(4, 0), (2, 0), (2, 2)]


# -- a zoo that is wrong ---------------------------------------------------------------------------


def test_errors_name_the_file_and_the_kernel(tmp_path: Path) -> None:
    with pytest.raises(ZooError, match="there is no zoo"):
        read_zoo(tmp_path)
    (tmp_path / "planted").mkdir()
    file = tmp_path / "planted" / "one.toml"
    kernel = 'id = "a"\ntask = "silu_and_mul"\nwhy = "w"\n'
    begin = f'kind = "k"\nabout = "a"\n[[kernels]]\n{kernel}'
    for more, message in (
        ("", "a: a planted kernel needs a witness or a reason"),
        ('reason = "r"\n', "a: neither a text nor edits"),
        ('reason = "r"\nedits = [["no such text", "x"]]', "holds 'no such text...' 0 times"),
        ('reason = "r"\nedit = []', "unknown field `edit`"),
    ):
        file.write_text(begin + more)
        with pytest.raises(ZooError, match=message) as caught:
            read_zoo(tmp_path)
        assert caught.value.file == str(file)


def test_kinds_that_are_not_there_are_named(items: tuple[Item, ...]) -> None:
    with pytest.raises(UserError, match="no kind 'race'") as caught:
        select(items, ("race",), ())
    assert "races" in caught.value.hint
    with pytest.raises(UserError, match="no kernel of the zoo matches"):
        select(items, ("races",), ("silu-backwards",))


def test_what_was_checked_on_a_gpu_is_still_to_be_timed(tmp_path: Path) -> None:
    item = Item("x", Group.HONEST, "memory", "silu_and_mul", "text")
    results = Results(tmp_path / "audit.jsonl", replace(HEAD, device="cuda:0"))
    states = []
    for outcome in (None, Outcome.TROUBLE, Outcome.UNTIMED, Outcome.PASSED):
        if outcome is not None:
            text = content_hash(item.text)
            results.add(AuditRecord("x", Group.HONEST, "memory", item.task, text, outcome))
        states.append((results.lacks(item), results.is_untimed(item)))
    assert states == [(True, False), (True, False), (True, True), (False, False)]
    again = Results(results.file, results.head)
    assert not again.lacks(item)
