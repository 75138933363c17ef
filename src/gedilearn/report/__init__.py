"""Figures drawn from a run directory alone."""
