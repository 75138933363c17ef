"""Networks, and the one place that reads a classifier as an energy-based model."""
