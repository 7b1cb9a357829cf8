"""Hand-written test clients that record every byte."""
