"""compute-sanitizer as an optional gate: what it finds, mapped to the candidate's lines."""

from astra_tui.lab.cuda.sanitizer.gate import cases_to_sanitize, find_sanitizer, sanitize

__all__ = ["cases_to_sanitize", "find_sanitizer", "sanitize"]
