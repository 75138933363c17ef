"""Data sets: built-in, from files, and as checked and scaled arrays."""
