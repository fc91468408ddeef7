"""A `[gate]` for matrices that tests write, which every matrix must have."""

LIMITS = """\
gate.margin = 0.005
gate.budget = 0.02
gate.alpha = 0.05
gate.control_alpha = 0.01
gate.screen_trials = 5
gate.confirm_trials = 10
gate.pairs = 12
gate.most_dropped = 0.1
gate.static = { sass_growth = 0.1, wheel_bytes = 1, build_seconds = 1, build_growth = 0.1, compiler_bytes = 1 }
"""
