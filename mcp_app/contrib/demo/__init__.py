"""The demo catalogue: tools, prompts and resources that show each feature and serve as examples."""
