"""What people enter by from a command line."""
