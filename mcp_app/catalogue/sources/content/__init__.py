"""Texts and files of administrators: prompts with placeholders, and resources."""
