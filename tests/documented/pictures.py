"""`./run docs --pictures`: the pictures of the documentation, taken from those that the browser tests kept.

A page asks for a picture by naming it: `![…](../images/approval.light.png)`. What no page names any more is removed.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from documented import png

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / ".run" / "pictures"
IMAGES = ROOT / "docs" / "images"
MOST_BYTES = 1_500_000  # of all together
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))


def wanted() -> dict[str, list[str]]:
    """The pictures that pages name, each with the pages."""
    found: dict[str, list[str]] = {}
    for page in PAGES:
        for name in re.findall(r"!\[[^\]]*\]\([^)]*images/([\w.-]+\.png)\)", page.read_text(encoding="utf-8")):
            found.setdefault(name, []).append(str(page.relative_to(ROOT)))
    return found


def refresh() -> None:
    """Take every picture that a page names, and remove the others."""
    IMAGES.mkdir(exist_ok=True)
    names = wanted()
    for left in sorted(path for path in IMAGES.glob("*.png") if path.name not in names):
        left.unlink()
        sys.stdout.write(f"removed {left.relative_to(ROOT)}\n")
    for name, pages in sorted(names.items()):
        kept = KEPT / name
        if not kept.is_file():
            sys.exit(f"{pages[0]} shows {name}, and no test of the console kept it: tests/console/test_pictures.py")
        (IMAGES / name).write_bytes(png.written(png.read(kept.read_bytes())))
    total = sum(path.stat().st_size for path in IMAGES.glob("*.png"))
    sys.stdout.write(f"{len(names)} pictures in docs/images, {total // 1000} kB\n")


if __name__ == "__main__":
    refresh()
