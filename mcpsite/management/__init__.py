"""Management commands of the deployable project."""
