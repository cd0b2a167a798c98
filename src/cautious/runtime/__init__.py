"""What every long computation needs: a clock, interruption, memory and threads."""
