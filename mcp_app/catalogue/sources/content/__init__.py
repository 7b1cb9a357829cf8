"""Texts and files that administrators keep here: prompts with placeholders, and resources."""
