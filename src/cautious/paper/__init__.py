"""The experiments and theorems of the paper, one module per figure, behind ``cautious paper``."""
