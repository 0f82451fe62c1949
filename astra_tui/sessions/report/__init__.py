"""A session as one HTML file and one Markdown file, made from its journal and sources alone."""

from astra_tui.sessions.report.compose import WrittenReport, compose, write_report
from astra_tui.sessions.report.html import as_html
from astra_tui.sessions.report.markdown import as_markdown

__all__ = ["WrittenReport", "as_html", "as_markdown", "compose", "write_report"]
