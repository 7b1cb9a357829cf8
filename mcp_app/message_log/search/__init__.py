"""Search of the message log: the search language, times in a search, and saved searches."""
