"""Drawings of a report as inline SVG, written by hand; colours and fonts are in report.css."""
