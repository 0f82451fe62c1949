"""Conditions of a source: where they are, which sides were taken, what the others would need."""
