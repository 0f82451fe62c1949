"""Drafts a kernel task from somebody's CUDA source: what can be read is filled in, the rest listed."""

from astra_tui.lab.draft.draft import Draft, draft_task

__all__ = ["Draft", "draft_task"]
