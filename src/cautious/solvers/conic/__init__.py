"""Cone programs, solved by Clarabel."""
