"""Kernels of packages in a form that moves read: copied out of their file, and written out."""
