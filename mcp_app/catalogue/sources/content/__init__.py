"""Texts and files that administrators write or upload: prompts with placeholders, and resources."""
