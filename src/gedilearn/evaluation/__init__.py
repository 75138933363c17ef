"""How good a fitted model is: `evaluate` gives all numbers in one dictionary.

Each of the other modules has one kind of score of arrays.
"""

from gedilearn.evaluation.fitted_model import Probe, evaluate, heading, table

__all__ = ["Probe", "evaluate", "heading", "table"]
