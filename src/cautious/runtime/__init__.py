"""What every long computation needs: threads and the deadline of the caller."""
