"""`python -m attnfun` is the command `attnfun`."""

from __future__ import annotations

from .cli import main

if __name__ == "__main__":
    main()
