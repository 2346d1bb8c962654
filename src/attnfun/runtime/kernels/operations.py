"""The operations of a program (`programs.py` writes it, `machine.py` runs it): rows of a table of integers."""

AFFINE = 0
"""(AFFINE, first row, rows, first register put out)."""
HEAD = 1
"""(HEAD, first query, features, first offset, tokens, first key, first value, columns, first register put out)."""
SELF = 2
"""Like HEAD, for a token and at most SHORT of memory: its own key and value are in registers behind its query."""
SHORT = 8
"""Memory tokens of a layer whose heads are computed at once, beside a token that sees itself."""
