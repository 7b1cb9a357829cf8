"""What is offered: code-defined and admin-made entries; knows nothing of sessions or transports."""
