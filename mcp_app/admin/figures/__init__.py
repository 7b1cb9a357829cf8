"""The pages of figures and of errors: what the log writer counted, each number with its messages."""
