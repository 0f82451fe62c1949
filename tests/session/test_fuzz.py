"""A sample of the damaged and hostile sessions of fuzz_sessions.py, which runs thousands."""

from __future__ import annotations

import os

import pytest

from .fuzz_sessions import fuzz

SAMPLE = 60


@pytest.mark.parametrize("first", [0, 700_000])
def test_hostile_sessions_end_in_an_error_or_a_part_with_its_place(first, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    assert list(fuzz(SAMPLE, first)) == list(range(first, first + SAMPLE))
