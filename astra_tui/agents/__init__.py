"""The four roles, filled by a language model or the playbook's moves. Nothing here yet."""
