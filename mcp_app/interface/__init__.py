"""What admin, console and API share: texts made safe to show, marks, links, summaries."""
