"""The Builder's Creed: values and principles as one page of Markdown."""

from __future__ import annotations

from collections.abc import Sequence


def creed(values: Sequence[str], principles: Sequence[str]) -> str:
    lines = ["# Builder's Creed", "", "## What we hold", ""]
    lines += [f"- We hold to **{_line(value)}**, also when it costs us." for value in values]
    lines += ["", "## How we act", ""]
    lines += [f"{number}. {_line(principle)}" for number, principle in enumerate(principles, start=1)]
    lines += ["", "## What we promise", ""]
    lines += ["We build what can be handed on, and we hand on what we built.", ""]
    return "\n".join(lines)


def _line(text: str) -> str:
    return " ".join(text.split())
