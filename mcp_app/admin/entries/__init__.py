"""Admin pages of tools, prompts and resources: forms, drafts, history, test bench, export and import."""
