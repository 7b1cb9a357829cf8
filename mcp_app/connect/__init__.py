"""What a person needs to connect a client: the address, and text to paste; reads no rows."""
