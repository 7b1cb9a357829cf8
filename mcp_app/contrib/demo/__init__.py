"""The demo catalogue: a few tools, prompts and resources that show each feature and double as examples."""
