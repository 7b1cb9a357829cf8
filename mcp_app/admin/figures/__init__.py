"""Pages of figures and of errors: numbers counted by the log writer, each linked to its messages."""
