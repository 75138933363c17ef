"""A fitted model measured on test data: `assess` gives every number in one plain dictionary."""

from gedilearn.assessment.measuring import Probe, assess, read_buffer
from gedilearn.assessment.showing import markdown, sentences, table

__all__ = ["Probe", "assess", "markdown", "read_buffer", "sentences", "table"]
