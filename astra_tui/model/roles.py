"""The four agents.

What the loop asks of each is in `model/team_protocol.py`; `llm/roles/` and `llm/llm_team.py`
answer with a model, `playbook/playbook_team.py` without one. Its tools are in
`llm/asking/toolbox.py`.
"""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """The four agents."""

    PLANNING = "planning"
    CODING = "coding"
    TESTING = "testing"
    PROFILING = "profiling"
