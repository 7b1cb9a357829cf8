"""Legacy sessions and modern requests: their life cycle, streams, questions to clients, and storage quota."""
