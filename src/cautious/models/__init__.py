"""Models: what the world does. Known models (``MDP``) and simulators."""
