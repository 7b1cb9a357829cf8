"""Date and time formats for the skin's own pages, the same as on all others."""
