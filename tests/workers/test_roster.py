"""Who gets which job, without any worker: by plans of what may happen in any order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.model.errors import UserError
from astra_tui.workers.jobs import Identity
from astra_tui.workers.opening import WorkersAsked
from astra_tui.workers.roster import Member, Roster, describe, silent, unfit

STEPS = st.lists(
    st.tuples(
        st.sampled_from(("join", "join", "lose", "exclude", "begin", "begin", "begin", "end")),
        st.integers(0, 3),
        st.booleans(),
    ),
    max_size=60,
)


@given(STEPS)
def test_no_worker_has_more_jobs_than_it_takes_nor_two_timings(steps: list) -> None:
    """Whatever joins, is lost or left out: a job is at one worker, and its end frees the place."""
    roster, at = Roster(), {}
    for number, (step, worker, flag) in enumerate(steps):
        address, job = f"tls://{worker}", f"job{number}"
        if step == "join" and address not in roster.members and str(worker) not in roster.excluded:
            roster = roster.join(Member(address, str(worker), 1 + worker % 2, "GPU-1" * flag))
        elif step == "lose":
            roster = roster.lose(address)
        elif step == "exclude":
            roster = roster.exclude(str(worker), "it is another version")
        elif step == "begin" and (chosen := roster.choose(lease=flag, prefer=address)):
            assert chosen.name not in roster.excluded
            assert not (flag and (chosen.leased or not chosen.gpu))
            roster, at[job] = roster.begin(chosen.address, job, lease=flag), chosen.address
        elif step == "end" and at:
            job, address = at.popitem()
            roster = roster.end(address, job, 1.0)
        else:
            continue
        held = [j for m in roster.members.values() for j in (*m.jobs, *filter(None, [m.leased]))]
        assert len(held) == len(set(held))
        assert all(len(m.jobs) <= m.slots for m in roster.members.values())
        assert {m.name for m in roster.members.values()}.isdisjoint(roster.excluded)
        assert len(describe(roster)) == len(roster.members) + len(roster.excluded)


def test_a_job_goes_where_the_last_was_else_where_least_is_to_do() -> None:
    roster = Roster().join(Member("a", "a", 2)).join(Member("b", "b", 2))
    roster = roster.begin("a", "1", lease=False)
    assert (found := roster.choose(lease=False)) is not None
    assert found.name == "b"
    assert (found := roster.choose(lease=False, prefer="a")) is not None
    assert found.name == "a"
    assert roster.choose(lease=True) is None


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
