"""Authentication, principals and permissions."""
