"""What a thread of ours has of its caller, and keeps for the next: a context, connections to the database."""
