"""Pages of tools, prompts and resources: forms, drafts, history, test bench, transfer."""
