"""attnfun beside what a user would take instead: the same functions, one process, stated budgets.

    problems -> contestants -> entries (measured) -> verdicts -> page, pictures, the table of the README

`contest` measures functions, `context` learning in context, `curves` resources against tolerances; each gives tables,
which `page` writes and reads again. Nobody's row is made by other code than anybody else's.
"""
