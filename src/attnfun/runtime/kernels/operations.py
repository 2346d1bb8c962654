"""The operations of a program (`programs.py` writes it, `machine.py` runs it): rows of a table of integers."""

AFFINE = 0
"""(AFFINE, first row, rows, first register put out)."""
HEAD = 1
"""(HEAD, first query, features, first offset, tokens, first key, first value, columns, first register put out)."""
