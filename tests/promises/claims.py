"""Which tests claim to prove which promise, kept between runs: collecting all tests takes most of a minute.

Every run of the whole suite leaves the claims behind in `.run/claims.json`, together with a fingerprint of the test
files. `./run requirements` reads them, and collects by itself only where a file has changed since.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest

from promises.coverage import Claim
from promises.marks import marks

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from promises.catalogue import Catalogue

_IN_WORKER_OUTPUT = "paddock_claims"


@dataclass(frozen=True, slots=True)
class ClaimsFile:
    """The claims of the last collection."""

    root: Path

    def read(self) -> list[Claim] | None:
        """What was claimed; None where test files have changed since, or nothing was kept."""
        try:
            kept: Any = json.loads(self._path.read_text(encoding="utf-8"))
            if kept["fingerprint"] == self.fingerprint():
                return [Claim(*claim) for claim in kept["claims"]]
        except (OSError, ValueError, KeyError, TypeError):
            pass
        return None

    def write(self, claims: Iterable[Claim], fingerprint: str) -> None:
        """Keep the claims of a whole collection, with the fingerprint of the files that it was made from."""
        rows = [(claim.promise_id, claim.row, claim.test) for claim in claims]
        self._path.parent.mkdir(exist_ok=True)
        self._path.write_text(json.dumps({"fingerprint": fingerprint, "claims": rows}), encoding="utf-8")

    @property
    def _path(self) -> Path:
        return self.root / ".run" / "claims.json"

    def fingerprint(self) -> str:
        """Changes whenever a file does that says which tests there are."""
        tests = self.root / "tests"
        digest = sha256()
        for path in sorted((*tests.rglob("*.py"), *tests.glob("*.toml"))):
            status = path.stat()
            digest.update(f"{path.relative_to(tests)} {status.st_size} {status.st_mtime_ns}\n".encode())
        return digest.hexdigest()


class ClaimsCollector:
    """A pytest plugin that writes down who claims what, of all tests that were collected before any were left out."""

    def __init__(self, catalogue: Catalogue, *, keep_in: ClaimsFile | None) -> None:
        self.found: list[Claim] = []
        self._catalogue = catalogue
        self._keep_in = keep_in
        # Before the collection: a file that is edited during the run makes its claims out of date.
        self._fingerprint = keep_in.fingerprint() if keep_in is not None else ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        self.found = [
            Claim(promise_id, self._catalogue.check(promise_id, row), item.nodeid)
            for item in items
            for promise_id, row in marks(item)
        ]
        output: dict[str, Any] | None = getattr(config, "workeroutput", None)
        if output is not None and config.workerinput["workerid"] == "gw0":  # type: ignore[attr-defined]
            output[_IN_WORKER_OUTPUT] = [(claim.promise_id, claim.row, claim.test) for claim in self.found]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        rows = getattr(node, "workeroutput", {}).get(_IN_WORKER_OUTPUT)
        if rows is not None:
            self.found = [Claim(*row) for row in rows]

    def pytest_sessionfinish(self) -> None:
        if self._keep_in is not None and self.found:
            self._keep_in.write(self.found, self._fingerprint)
