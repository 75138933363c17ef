"""Drawing from the energy-based model: the Langevin step and the replay buffer."""
