"""Django system checks of this app. They report mistakes that would otherwise be noticed late."""
