"""A session as one HTML file and one Markdown file, made from its journal and sources alone."""

from astra_tui.present.html import as_html
from astra_tui.present.markdown import as_markdown
from astra_tui.present.report.compose import WrittenReport, compose, write_report

__all__ = ["WrittenReport", "as_html", "as_markdown", "compose", "write_report"]
