"""Recorded episodes: reading them, and the prior that they give."""
