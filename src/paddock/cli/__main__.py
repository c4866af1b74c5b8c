"""`python -m paddock.cli`."""

from __future__ import annotations

from paddock.cli.main import main

main()
