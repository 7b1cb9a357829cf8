"""How people change the catalogue: drafts, checks, revisions, history."""
