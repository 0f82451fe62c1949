"""Who gets which job, without any worker: by plans of what may happen in any order."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from astra_tui.lab.requests import Check, Compile, NamedSource, Time
from astra_tui.model.errors import UserError
from astra_tui.model.gpu import GpuIdentity
from astra_tui.model.settings import EMULATOR
from astra_tui.model.timing import Ratio, Timing, TimingVerdict
from astra_tui.rpc import Message
from astra_tui.workers.jobs import PROCESSES, Answer, Ended, proven_by
from astra_tui.workers.opening import WorkersAsked
from astra_tui.workers.roster import (
    MOST_ON_GPU,
    Identity,
    Member,
    Need,
    Roster,
    Use,
    silent,
    unfit,
)

H100, H200 = (GpuIdentity(name=f"NVIDIA {n}", uuid=f"GPU-{n}") for n in ("H100", "H200"))
ALONE, GPU = Need(Use.ALONE), Need(Use.GPU)

STEPS = st.lists(
    st.tuples(
        st.sampled_from(("join", "join", "lose", "exclude", "begin", "begin", "begin", "end")),
        st.integers(0, 3),
        st.builds(Need, st.sampled_from(Use), st.sampled_from(("", "NVIDIA H100", "NVIDIA H200"))),
    ),
    max_size=60,
)


@given(STEPS)
def test_no_worker_has_more_jobs_than_it_takes_nor_two_timings(steps: list) -> None:
    """Whatever joins, is lost or left out: a job is at one worker, and its end frees the place."""
    roster, at = Roster(), {}
    for number, (step, worker, need) in enumerate(steps):
        address, job = f"tls://{worker}", f"job{number}"
        if step == "join" and address not in roster.members and str(worker) not in roster.excluded:
            device = (None, None, H100, H200)[worker]
            roster = roster.join(Member(address, str(worker), 1 + 5 * (worker % 2), device))
        elif step == "lose":
            roster = roster.lose(address)
        elif step == "exclude":
            roster = roster.exclude(str(worker), "it is another version")
        elif step == "begin" and (chosen := roster.choose(need, address, timings=worker)):
            assert chosen.name not in roster.excluded
            assert need.use is Use.CPU or need.kind in ("", chosen.kind)
            assert roster.can_ever(need)
            roster, at[job] = roster.begin(chosen.address, job, need.use), chosen.address
        elif step == "end" and at:
            job, address = at.popitem()
            roster = roster.end(address, job, 1.0)
        else:
            continue
        held = [job for m in roster.members.values() for job in m.jobs]
        assert len(held) == len(set(held))
        for member in roster.members.values():
            alone = member.count(Use.ALONE)
            assert len(member.jobs) - alone <= member.slots
            assert not alone or (alone == 1 and not member.count(Use.GPU))
            assert member.count(Use.GPU) <= MOST_ON_GPU
            assert member.gpu or len(member.jobs) == member.count(Use.CPU)
        assert {m.name for m in roster.members.values()}.isdisjoint(roster.excluded)
        assert {m.name for m in roster.members.values()}.isdisjoint(roster.lost)
        known = len(roster.members) + len(roster.excluded) + len(roster.lost)
        assert len(roster.status({}).workers) == known


def test_a_job_goes_where_the_last_was_else_where_least_is_to_do() -> None:
    roster = Roster().join(Member("a", "a", 2)).join(Member("b", "b", 2))
    roster = roster.begin("a", "1", Use.CPU)
    assert (found := roster.choose(Need())) is not None
    assert found.name == "b"
    assert (found := roster.choose(Need(), prefer="a")) is not None
    assert found.name == "a"
    assert roster.choose(ALONE) is None
    assert not roster.can_ever(ALONE)


def test_a_timing_that_waits_gets_the_next_gpu() -> None:
    """Checks would keep it waiting for ever; those that it does not need continue."""
    roster = Roster().join(Member("a", "a", 2, H100)).join(Member("b", "b", 2, H200))
    roster = roster.begin("a", "1", Use.GPU).begin("b", "2", Use.GPU).begin("b", "3", Use.GPU)
    assert roster.choose(ALONE) is None
    assert roster.choose(GPU, timings=1) is None
    roster = roster.end("a", "1", 1.0).end("b", "3", 1.0)
    assert (found := roster.choose(ALONE)) is not None
    assert found.name == "a"
    assert (found := roster.choose(GPU, timings=1)) is not None
    assert found.name == "b"
    far = Need(Use.GPU, "NVIDIA H200")
    assert roster.choose(far, timings=1) is None, "a kind's timings wait for GPUs of that kind"
    assert roster.choose(far) == found
    roster = roster.begin("a", "4", Use.ALONE)
    assert not roster.members["a"].takes(Use.GPU)
    assert roster.members["a"].takes(Use.HOST)


RATIO = Ratio(1.0, 0.999, 1.001, 40)
TIMING = Timing("cuda:0", "H200", "a", "a", (), RATIO, RATIO, TimingVerdict.SAME, ())


def test_a_gpu_proves_itself_by_what_it_tells_apart() -> None:
    def answer(control: Ratio) -> Answer:
        reply = msgspec.to_builtins(replace(TIMING, control=control))
        return Answer(messages=(Message("Timing", reply), Message()))

    assert proven_by(answer(RATIO)) == ("0.10%", "")
    assert "tells no less than 2.04%" in proven_by(answer(Ratio(1.0, 0.98, 1.01, 40)))[1]
    assert "no clocks" in proven_by(Answer(Ended.DIED, message="no clocks"))[1]


def test_what_a_request_takes_of_its_worker() -> None:
    lab, source = PROCESSES["astra_tui.lab.worker"], NamedSource("", "a.cu")
    timing = msgspec.to_builtins(Time(source, source))
    gpu = ("task", "cuda:0", "hash"), "NVIDIA H100"
    check = msgspec.to_builtins(Check(source))
    assert lab.need(gpu[0], timing, gpu[1]) == Need(Use.ALONE, "NVIDIA H100")
    assert lab.need(gpu[0], check, gpu[1]) == Need(Use.GPU, "NVIDIA H100")
    assert lab.need(gpu[0], msgspec.to_builtins(Compile(source))) == Need(Use.HOST)
    assert lab.need(("task", EMULATOR, "hash"), check, gpu[1]) == Need()
    assert lab.proof(timing) == timing
    assert lab.proof(msgspec.to_builtins(Check(source))) is None


def test_a_lost_gpu_may_come_back_and_one_that_is_left_out_does_not() -> None:
    roster = Roster().join(Member("a", "gpu0", 1, H100)).lose("a")
    assert roster.can_ever(ALONE)
    assert not roster.can_now(ALONE)
    back = roster.join(Member("b", "gpu0", 1, H100))
    assert back.can_now(ALONE)
    assert not back.lost
    assert not back.exclude("gpu0", "it tells nothing apart").can_ever(ALONE)
    roster = back.join(Member("c", "gpu1", 1, H200)).join(Member("d", "gpu2", 1, H200))
    assert roster.kinds == ("NVIDIA H200", "NVIDIA H100")


def test_a_worker_is_silent_two_seconds_after_its_last_sign() -> None:
    assert silent({"a": 1.0, "b": 2.5}, 3.1) == ("a",)


def test_an_unfit_worker_is_told_what_differs() -> None:
    engine = Identity("1" * 64, {"astra-tui": "1.0", "numpy": "2.3", "python": "3.11.7"})
    assert unfit(engine, engine) == ""
    other = Identity("1" * 64, {"astra-tui": "1.0", "numpy": "2.4"})
    assert "numpy is 2.4, and not 2.3" in unfit(engine, other)
    assert "python is missing" in unfit(engine, other)
    assert "other code" in unfit(engine, Identity("2" * 64, engine.versions))


@pytest.mark.parametrize(
    ("flags", "asked"),
    [
        ((None, None), None),
        (("3", None), WorkersAsked(3)),
        (("local", None), WorkersAsked()),
        ((None, "tls://host:8786"), WorkersAsked(scheduler="tls://host:8786")),
    ],
)
def test_flags_are_read(flags: tuple, asked: WorkersAsked | None) -> None:
    assert WorkersAsked.read(*flags) == asked


@pytest.mark.parametrize(
    "flags", [("0", None), ("many", None), ("1000", None), (None, "tcp://host:1"), ("2", "tls://a")]
)
def test_wrong_flags_are_refused(flags: tuple) -> None:
    with pytest.raises(UserError):
        WorkersAsked.read(*flags)
