from __future__ import annotations

from msgspec.structs import replace

from astra_tui.model.environment import Difference, differences, recorded_environment
from astra_tui.model.events import EngineStarted, SessionOpened
from astra_tui.model.fold import fold
from tests.sessions.samples import whole_session

STATE = fold(whole_session())
OPENED = next(e for e in whole_session() if isinstance(e, SessionOpened))


def test_versions_are_those_of_the_engine_that_ran_last() -> None:
    first = recorded_environment(STATE, EngineStarted("old", 1, 5))
    assert (first.host, first.versions) == ("old", OPENED.versions)
    later = {"astra-tui": "9.9", "numpy": "3.0"}
    last = recorded_environment(STATE, EngineStarted("new", 2, 9, later))
    assert (last.host, last.versions) == ("new", later)


def test_what_differs_is_named_with_both_values() -> None:
    recorded = replace(recorded_environment(STATE), host="old", versions={"a": "1", "b": "2"})
    assert differences(recorded, recorded) == ()
    here = replace(recorded, host="new", versions={"a": "1", "c": "3"})
    assert differences(recorded, here) == (
        Difference("b", "2", "none"),
        Difference("c", "none", "3"),
        Difference("machine", "old", "new"),
    )


def test_the_versions_of_an_engine_are_no_part_of_the_state() -> None:
    """Journals that do not have them reach the digest that was written."""
    events = [
        replace(e, versions={"astra-tui": "9.9"}) if isinstance(e, EngineStarted) else e
        for e in whole_session()
    ]
    assert fold(events).digest() == STATE.digest()
