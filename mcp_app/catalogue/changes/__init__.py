"""Changes of the catalogue by people: drafts, checks, revisions, history."""
