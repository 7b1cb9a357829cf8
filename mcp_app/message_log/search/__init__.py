"""Search of the log: a language of keys and words, its times, and saved searches."""
