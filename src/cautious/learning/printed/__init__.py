"""The algorithms of the paper as printed."""
