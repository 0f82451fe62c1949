"""CUDA source as text: its syntax tree, and what stands in for headers that are not there."""
