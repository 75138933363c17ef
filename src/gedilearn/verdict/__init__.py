"""How far to trust a result: the bound gap, the evidence, the failure modes, the grade."""
