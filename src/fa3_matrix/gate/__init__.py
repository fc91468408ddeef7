"""The gate: whether head may follow base, judged from what earlier stages measured. Pure functions, no I/O."""
