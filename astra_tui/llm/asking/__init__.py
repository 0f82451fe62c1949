"""What the roles share: facts as text, prompts around them, tools, memory, and what calls cost."""
