"""Date and time formats that make the skin's own pages look like all other pages."""
