"""The commands of the project, one in each module."""
