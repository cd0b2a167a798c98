"""What every long computation needs: a clock, interruption, memory, threads and workers."""
