"""`./run docs --write`: writes every reference page anew that is behind the code, and says which."""

from __future__ import annotations

import sys
from pathlib import Path

from documented.references import PAGES

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"

for name, written in sorted(PAGES.items()):
    page, text = REFERENCE / name, written()
    if not page.exists() or page.read_text(encoding="utf-8") != text:
        page.write_text(text, encoding="utf-8")
        sys.stdout.write(f"wrote docs/reference/{name}\n")
