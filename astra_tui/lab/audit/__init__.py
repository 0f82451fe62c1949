"""The audit of the gate: kernels that are known to be wrong or right, and what the gate says."""
