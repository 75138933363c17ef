"""What several threads of one process do one after another."""

from __future__ import annotations

import threading

# Held while a library changes what all threads share. scikit-learn lets BLAS compute with a single
# thread meanwhile, which changes the last digits of other products, and then puts back what it
# found: of two overlapping searches, the second finds the first one's limit. `catch_warnings` does
# the same to filters, and pynndescent may end the process when two threads compute at once.
ONE_AT_A_TIME = threading.RLock()
