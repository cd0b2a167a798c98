"""What samples prove, with confidence."""
