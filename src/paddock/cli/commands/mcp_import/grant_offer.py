"""What an import offers beside the server: grants for the places that its settings name, and a trial."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from paddock.cli.output.report import ask_yes_no, is_interactive, print_error
from paddock.core.errors import PaddockError
from paddock.core.printable import printable

if TYPE_CHECKING:
    from paddock.cli.client.api_client import ApiClient
    from paddock.cli.commands.mcp_import.import_terms import ImportTerms


class GrantOffer:
    """Asks about the grants that one server is known to miss.

    Args:
        title: The server's name in the settings.
        mode: What the person said for all: `read`, `write` or `none`; None if nothing.
        asks: Whether to ask at the terminal, where they said nothing.

    Attributes:
        missing: Each place with what was granted, as JSON data.
    """

    def __init__(self, title: str, mode: str | None, *, asks: bool) -> None:
        self.missing: list[dict[str, Any]] = []
        self._title = title
        self._mode = mode
        self._asks = asks

    def choose(self, proposal: Mapping[str, Any]) -> Sequence[str]:
        """Return the grants to add. A server that is installed keeps its own, which other ones would replace."""
        for missing in proposal["missing_grants"]:
            granted = None if proposal["old_version"] else self._choose(missing)
            self.missing.append({**missing, "granted": granted})
        return [one["granted"] for one in self.missing if one["granted"]]

    def _choose(self, missing: Mapping[str, Any]) -> str | None:
        match self._mode:
            case "write":
                return missing["writable"] or missing["capability"]
            case "read":
                return missing["capability"] if missing["capability"].startswith("read:") else None
            case "none":
                return None
            case _:
                return self._ask(missing) if self._asks and is_interactive() else None

    def _ask(self, missing: Mapping[str, Any]) -> str | None:
        """Ask about one place; anything but a clear answer is no."""
        path, writable = printable(missing["path"], 400), missing["writable"]
        if missing["capability"].startswith("write:"):
            question, answers = f"{self._title} would make {path}: let it write into that folder?", "[w/N]"
        elif writable:
            question, answers = f"{self._title} names {path}: let it read there, or with w change it too?", "[r/w/N]"
        else:
            question, answers = f"{self._title} names {path}: let it read that?", "[r/N]"
        sys.stderr.write(f"{printable(question, 600)} {answers} ")
        sys.stderr.flush()
        answer = sys.stdin.readline().strip().lower()
        if answer in ("w", "write"):
            return writable or (missing["capability"] if answers == "[w/N]" else None)
        return missing["capability"] if answer in ("r", "read", "y", "yes") and answers != "[w/N]" else None


def offer_trial(api: ApiClient, result: dict[str, Any], terms: ImportTerms, failures: list[PaddockError]) -> None:
    """Try an imported server, if the person wants that. What came of it is added to the result."""
    name = result["name"]
    if terms.tries is None:
        asks = not terms.yes and is_interactive() and result["action"] in ("installed", "upgraded")
        wanted = asks and ask_yes_no(f"Try {name} now: whether it answers, and what else it needs?")
    else:
        wanted = terms.tries
    if not wanted:
        return
    from paddock.cli.commands.plugin.trial import no_answer_error, print_obstacles, try_and_grant
    from paddock.core.error_formats import error_to_json

    try:
        trial = try_and_grant(api, name, (), f"paddock plugin try {name}", write=terms.paths == "write", yes=terms.yes)
        result["trial"] = trial
        if not trial["answers"]:
            print_obstacles(trial)
            raise no_answer_error(trial)
    except PaddockError as error:
        # It is imported all the same.
        print_error(error)
        failures.append(error)
        result.setdefault("trial", {"answers": False, "error": error_to_json(error)})
