"""The rules of a running host, for people to read, to try and to test. Nothing here decides or changes anything."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from paddock.config.directories import Directories
from paddock.config.settings import PolicySettings
from paddock.core.call import Principal
from paddock.core.clock import Clock
from paddock.core.errors import NotFound, PaddockError, Problem
from paddock.core.ids import DEFAULT_TENANT, Tenant
from paddock.core.printable import printable
from paddock.gate.catalogue import Catalogue
from paddock.host.known_names import known_names
from paddock.host.rulebook import Rulebook
from paddock.host.supposing import ANYBODY_WITH, Answered, Supposed, served_by, suppose
from paddock.manifest.model import Kind
from paddock.plugins.plugin_store import PluginStore
from paddock.plugins.rows import current_versions
from paddock.plugins.store_thread import StoreThread
from paddock.policy.case_files import read_case_file
from paddock.policy.named import unknown_names
from paddock.policy.rules import SHIPPED, Rules
from paddock.policy.trying import Failure, failures, read_cases
from paddock.policy.versions import InForce, history, rules_of
from paddock.policy.vocabulary import SHIPPED_ROLES
from paddock.principals.api_keys import ApiKey, keys
from paddock.principals.people import Person, people
from paddock.principals.subjects import parse_subject

MOST_VERSIONS = 20


@dataclass(frozen=True, slots=True)
class RulesInForce:
    """What decides right now.

    Attributes:
        rules: The rules, and the version that they are.
        history: Which versions were in force, the newest first.
        unusable: Why what the files say now is not in force; None where it is.
        doubtful: Names in one's own rules that nobody and nothing here goes by. The rules are those of all tenants,
            and so are the names: told to whoever operates the host.
        folder: Where rules of one's own stand, or would.
    """

    rules: Rules
    history: tuple[InForce, ...]
    unusable: PaddockError | None
    doubtful: tuple[Problem, ...]
    folder: Path


@dataclass(frozen=True, slots=True)
class Cast:
    """Whom and what a tenant could ask the rules about."""

    people: tuple[Person, ...]
    keys: tuple[ApiKey, ...]
    agents: tuple[str, ...]
    roles: tuple[str, ...]
    callables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CasesRun:
    """What came of holding the rules against the table of cases that comes with them."""

    version: str
    count: int
    failed: tuple[Failure, ...]


class PolicyReading:
    """Reads, tries and tests the rules.

    Args:
        views: Where people, plugins and earlier versions are looked up.
        rulebook: The rules that hold.
        catalogue: Gives what is served to a tenant right now.
        directories, settings: Where one's own rules stand.
        clock: The time.
    """

    def __init__(
        self,
        views: StoreThread,
        rulebook: Rulebook,
        catalogue: Callable[[Tenant], Catalogue],
        directories: Directories,
        settings: PolicySettings,
        clock: Clock,
    ) -> None:
        self._views = views
        self._rulebook = rulebook
        self._catalogue = catalogue
        self._folder = Path(settings.directory) if settings.directory else directories.config / "policies"
        self._clock = clock

    async def in_force(self, tenant: Tenant) -> RulesInForce:
        """What decides right now."""
        rules, unusable = self._rulebook.policy.rules, self._rulebook.unusable
        looks = tenant == DEFAULT_TENANT and any(rule.origin != SHIPPED for rule in rules.rules)

        def unit(store: PluginStore) -> tuple[list[InForce], list[Problem]]:
            before = store.database.read(lambda tx: history(tx, MOST_VERSIONS))
            return before, unknown_names(rules, store.database.read(known_names)) if looks else []

        before, doubtful = await self._views.run(unit)
        return RulesInForce(rules, tuple(before), unusable, tuple(doubtful), self._folder)

    async def earlier(self, version: str) -> Rules:
        """The rules of a version that was in force once.

        Raises:
            NotFound: none of that name ever was.
            HostError: what is kept of it was changed.
        """
        found = await self._views.run(lambda store: store.database.read(lambda tx: rules_of(tx, version)))
        if found is None:
            raise NotFound(f"no rules {printable(version, 60)!r} were ever in force here", code="policy.no_version")
        return found

    async def cast(self, tenant: Tenant) -> Cast:
        """Whom and what there is to ask about."""
        now = self._clock.now()

        def unit(store: PluginStore) -> tuple[list[Person], list[ApiKey], list[str]]:
            return store.database.read(
                lambda tx: (
                    people(tx, tenant),
                    [one for one in keys(tx, tenant) if one.state(now) == "live"],
                    [name for name, row in current_versions(tx).items() if row.document.get("kind") == Kind.AGENT],
                )
            )

        everybody, live, agents = await self._views.run(unit)
        own = {role for one in everybody for role in one.rights.roles} - {*SHIPPED_ROLES}
        return Cast(
            tuple(everybody),
            tuple(live),
            tuple(sorted(map(str, agents))),
            (*SHIPPED_ROLES, *sorted(own)),
            self._catalogue(tenant).names(),
        )

    async def suppose(self, by: Principal, supposed: Supposed) -> Answered:
        """What the rules would say to somebody of the tenant of whoever asks; see `suppose`."""
        if not supposed.who.startswith(ANYBODY_WITH) and parse_subject(supposed.who, by.tenant).tenant != by.tenant:
            raise NotFound(f"nobody here is called {printable(supposed.who, 80)!r}", code="person.not_found")
        policy, now, served = self._rulebook.policy, self._clock.now(), served_by(self._catalogue(by.tenant).find)
        return await self._views.run(lambda store: suppose(store, policy, supposed, now, served), by.tenant)

    async def run_cases(self) -> CasesRun:
        """Hold the rules against the table that comes with them."""
        policy = self._rulebook.policy

        def work() -> CasesRun:
            cases = read_cases(read_case_file(), policy.rules.vocabulary)
            return CasesRun(policy.version, len(cases), tuple(failures(policy, cases)))

        return await asyncio.to_thread(work)
