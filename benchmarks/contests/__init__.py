"""attnfun beside others: peers on functions, trained networks in context, networks trained on, sizes by tolerance.

Each contest is an `Experiment`; `python benchmarks/evidence.py` runs them.
"""
