"""Optional Django apps that ship with the server and use only its public interface."""
