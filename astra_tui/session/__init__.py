"""Journals of optimisation sessions: writing, replay, report, export. Nothing here yet."""
