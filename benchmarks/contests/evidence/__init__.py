"""attnfun beside what a user would take instead: the same functions, one process, stated budgets.

    problem -> contestants -> contest (entries, measured) -> verdict -> experiment (page, picture, tables), docs

`verdict` is made from entries alone, which a CSV file keeps. Nobody's row is made by other code than anybody else's.
"""
