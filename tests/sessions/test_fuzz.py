"""A sample of the damaged and hostile sessions of fuzz_sessions.py and fuzz_commands.py."""

from __future__ import annotations

import os

import pytest

from . import fuzz_commands
from .fuzz_sessions import fuzz

SAMPLE = 30
COMMAND_SAMPLE = 12


@pytest.mark.parametrize("first", [0, 700_000])
def test_hostile_sessions_end_in_an_error_or_a_part_with_its_place(first, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    assert list(fuzz(SAMPLE, first)) == list(range(first, first + SAMPLE))


def test_commands_on_damaged_sessions_say_so_or_end_in_an_error(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    ends, failures = fuzz_commands.fuzz(COMMAND_SAMPLE, 4_000)
    assert failures == []
    assert {name for name, _ in ends} >= fuzz_commands.READING.keys()
