"""Why a cluster is one: what sets it apart, and its typical, doubtful and unusual rows."""

from gedilearn.explanation.kept import explain_result, keep, read_profile
from gedilearn.explanation.profiles import Explanation

__all__ = ["Explanation", "explain_result", "keep", "read_profile"]
