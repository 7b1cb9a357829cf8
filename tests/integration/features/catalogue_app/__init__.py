"""An application whose catalogue has every kind of entry, result, question and failure."""
