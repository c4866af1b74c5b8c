"""The settings of the MCP gateway. Rows of the table in `settings.py`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paddock.config.setting import Kind, Tighter, row
from paddock.core.printable import printable

_PAIR = re.compile(r"[a-zA-Z0-9_-]{1,64}=\S+")  # what model providers take, and what it is a name of


def check_names(value: Sequence[str]) -> str | None:
    """A complaint when one of these is not `name=plugin.callable`, or a name is given twice."""
    wrong = [pair for pair in value if not _PAIR.fullmatch(pair)]
    if wrong:
        told = ", ".join(printable(pair) for pair in wrong)
        return f"not written as name=plugin.callable, with letters, digits, _ and - in the name: {told}"
    twice = [name for name, count in Counter(pair.partition("=")[0] for pair in value).items() if count > 1]
    return f"given to more than one: {', '.join(twice)}" if twice else None


def chosen_names(value: Sequence[str]) -> Mapping[str, str]:
    """The names that were chosen, by what they are names of."""
    return {full_name: name for name, _, full_name in (pair.partition("=") for pair in value)}


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """What MCP clients see at `/mcp`."""

    names: tuple[str, ...] = row(
        (),
        "Names of tools and prompts, each as `name=plugin.callable`, such as `search=web.search`. What is not here is "
        "called `plugin__callable`.",
        kind=Kind.NAMES,
        check=check_names,
    )
    instructions: str | None = row(
        None,
        "What models are told of all the tools together when a client connects. Unset: nothing.",
        kind=Kind.TEXT,
    )
    page_size: int = row(
        1_000,
        "How many tools, documents or prompts one page of a list has. Not every client asks for a second page.",
        kind=Kind.INTEGER,
        minimum=1,
        maximum=10_000,
        tighter=Tighter.LOWER,
    )
