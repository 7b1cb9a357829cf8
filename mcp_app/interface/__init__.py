"""Code that admin, console and API have in common: safe display of text, links, summaries."""
