"""Objectives: a batch in, named loss terms out."""
