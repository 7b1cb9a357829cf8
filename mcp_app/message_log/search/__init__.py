"""How people search the log: a language of keys and words, and the times they write in it."""
