"""Drafts a kernel task from someone's CUDA source: the rest is listed."""

from astra_tui.drafting.draft import Draft, draft_task

__all__ = ["Draft", "draft_task"]
