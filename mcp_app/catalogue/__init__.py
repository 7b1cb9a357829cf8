"""The catalogue of tools, prompts and resources. It does not depend on sessions or transports."""
