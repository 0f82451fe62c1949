"""The optimisation loop with its approvals and budgets. Nothing here yet."""
