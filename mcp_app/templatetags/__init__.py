"""Template filters of the app; they know nothing of the admin or of stored rows."""
