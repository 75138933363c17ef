"""How good a fitted model is: `evaluate` gives every number in one plain dictionary.

The other modules score arrays, one kind of score each; nothing here trains.
"""

from gedilearn.evaluation.fitted_model import Probe, evaluate, sentences, table

__all__ = ["Probe", "evaluate", "sentences", "table"]
