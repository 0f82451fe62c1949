"""The four agents.

What the loop asks of each is in `model/team.py`; `llm/roles/` and `llm/team.py` answer with a
model, `playbook/team.py` without one. Its tools are in `llm/roles/toolbox.py`.
"""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """The four agents."""

    PLANNING = "planning"
    CODING = "coding"
    TESTING = "testing"
    PROFILING = "profiling"
