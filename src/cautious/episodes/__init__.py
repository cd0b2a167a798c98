"""Episodes that somebody else lived: reading them, and what they say about behaviour."""
