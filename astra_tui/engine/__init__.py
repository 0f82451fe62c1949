"""The optimisation loop with its approvals and budgets, and the process that it runs in."""
