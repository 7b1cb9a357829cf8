"""Django system checks of this app, for mistakes that would otherwise surface late."""
