"""The loop, the members and their certificate, checkpoints, and the triad monitor."""
