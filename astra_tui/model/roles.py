"""The four agents. What each does: `llm/roles/` with a model, `playbook/team.py` without one."""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """The four agents."""

    PLANNING = "planning"
    CODING = "coding"
    TESTING = "testing"
    PROFILING = "profiling"
