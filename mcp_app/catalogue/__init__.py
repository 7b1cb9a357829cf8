"""The catalogue of tools, prompts and resources; independent of sessions and transports."""
