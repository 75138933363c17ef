"""Why a cluster is one: what sets it apart, and its typical, doubtful and unusual rows."""

from gedilearn.explanation.profiles import Explanation, explain_result, keep, read_profile

__all__ = ["Explanation", "explain_result", "keep", "read_profile"]
