"""The neighbour graph of vectors: distances, neighbours, random walks, and the views they give."""
