"""Returns of episodes: their moments, their distribution, and planning for a target that is still to be earned."""
