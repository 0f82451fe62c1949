"""The four roles: what each is asked, and how its answer is read. Prompts are in `../prompts`."""
