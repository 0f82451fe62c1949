"""Panes and bars, one a file."""
