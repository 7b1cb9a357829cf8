"""What a running call asks its client, and what it keeps until the answer comes."""
