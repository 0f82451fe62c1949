"""A session as one HTML file and one Markdown file: made from the journal and the sources alone."""

from astra_tui.session.report.compose import compose
from astra_tui.session.report.html import as_html
from astra_tui.session.report.markdown import as_markdown

__all__ = ["as_html", "as_markdown", "compose"]
