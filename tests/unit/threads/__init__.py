"""What threads of ours have and keep."""
