"""What the lab does with a source on a GPU: time it, judge all its rows, watch it with tools."""
