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
from paddock.gate.catalogue.catalogue import Catalogue
from paddock.host.policy.active_policy import ActivePolicy
from paddock.host.policy.hypothetical_call import (
    ROLE_PREFIX,
    HypotheticalCall,
    HypotheticalDecision,
    catalogue_lookup,
    decide_hypothetical,
)
from paddock.host.policy.known_names import known_names
from paddock.manifest.model import PluginKind
from paddock.plugins.store.rows import current_versions
from paddock.plugins.store.store import PluginStore
from paddock.plugins.store.thread import StoreThread
from paddock.policy.cases import FailedCase, find_failed_cases, read_case_file, read_cases
from paddock.policy.entity_names import find_unknown_entities
from paddock.policy.rules import SHIPPED_ORIGIN, RuleSet
from paddock.policy.schema import SHIPPED_ROLES
from paddock.policy.versions import PolicyVersion, list_versions, load_version
from paddock.principals.api_keys import ApiKey, list_keys
from paddock.principals.people import Person, list_people
from paddock.principals.principal_name import parse_principal_name

MAX_LISTED_VERSIONS = 20


@dataclass(frozen=True, slots=True)
class ActiveRules:
    """What decides right now.

    Attributes:
        rules: The rules, and the version that they are.
        history: Which versions were in force, the newest first.
        unusable: Why what the files say now is not in force; None where it is.
        doubtful: Names in one's own rules that nobody and nothing here goes by. The rules are those of all tenants,
            and so are the names: told to whoever operates the host.
        folder: Where rules of one's own stand, or would.
    """

    rules: RuleSet
    history: tuple[PolicyVersion, ...]
    unusable: PaddockError | None
    doubtful: tuple[Problem, ...]
    folder: Path


@dataclass(frozen=True, slots=True)
class PolicyTryOptions:
    """Whom and what a tenant could ask the rules about."""

    people: tuple[Person, ...]
    keys: tuple[ApiKey, ...]
    agents: tuple[str, ...]
    roles: tuple[str, ...]
    callables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CaseRunResult:
    """What came of holding the rules against the table of cases that comes with them."""

    version: str
    count: int
    failed: tuple[FailedCase, ...]


class PolicyService:
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
        rulebook: ActivePolicy,
        catalogue: Callable[[Tenant], Catalogue],
        directories: Directories,
        settings: PolicySettings,
        clock: Clock,
    ) -> None:
        self._views = views
        self._active_policy = rulebook
        self._catalogue = catalogue
        self._folder = Path(settings.directory) if settings.directory else directories.config / "policies"
        self._clock = clock

    async def active_rules(self, tenant: Tenant) -> ActiveRules:
        """What decides right now."""
        rules, unusable = self._active_policy.policy.rules, self._active_policy.load_error
        looks = tenant == DEFAULT_TENANT and any(rule.origin != SHIPPED_ORIGIN for rule in rules.rules)

        def unit(store: PluginStore) -> tuple[list[PolicyVersion], list[Problem]]:
            before = store.database.read(lambda tx: list_versions(tx, MAX_LISTED_VERSIONS))
            return before, find_unknown_entities(rules, store.database.read(known_names)) if looks else []

        before, doubtful = await self._views.run(unit)
        return ActiveRules(rules, tuple(before), unusable, tuple(doubtful), self._folder)

    async def rules_of_version(self, version: str) -> RuleSet:
        """The rules of a version that was in force once.

        Raises:
            NotFound: none of that name ever was.
            HostError: what is kept of it was changed.
        """
        found = await self._views.run(lambda store: store.database.read(lambda tx: load_version(tx, version)))
        if found is None:
            raise NotFound(f"no rules {printable(version, 60)!r} were ever in force here", code="policy.no_version")
        return found

    async def try_options(self, tenant: Tenant) -> PolicyTryOptions:
        """Whom and what there is to ask about."""
        now = self._clock.now()

        def unit(store: PluginStore) -> tuple[list[Person], list[ApiKey], list[str]]:
            return store.database.read(
                lambda tx: (
                    list_people(tx, tenant),
                    [one for one in list_keys(tx, tenant) if one.state(now) == "live"],
                    [
                        name
                        for name, row in current_versions(tx).items()
                        if row.document.get("kind") == PluginKind.AGENT
                    ],
                )
            )

        everybody, live, agents = await self._views.run(unit)
        own = {role for one in everybody for role in one.rights.roles} - {*SHIPPED_ROLES}
        return PolicyTryOptions(
            tuple(everybody),
            tuple(live),
            tuple(sorted(map(str, agents))),
            (*SHIPPED_ROLES, *sorted(own)),
            self._catalogue(tenant).names(),
        )

    async def try_call(self, by: Principal, supposed: HypotheticalCall) -> HypotheticalDecision:
        """What the rules would say to somebody of the tenant of whoever asks; see `suppose`."""
        if (
            not supposed.who.startswith(ROLE_PREFIX)
            and parse_principal_name(supposed.who, by.tenant).tenant != by.tenant
        ):
            raise NotFound(f"nobody here is called {printable(supposed.who, 80)!r}", code="person.not_found")
        policy, now, served = (
            self._active_policy.policy,
            self._clock.now(),
            catalogue_lookup(self._catalogue(by.tenant).find),
        )
        return await self._views.run(lambda store: decide_hypothetical(store, policy, supposed, now, served), by.tenant)

    async def run_cases(self) -> CaseRunResult:
        """Hold the rules against the table that comes with them."""
        policy = self._active_policy.policy

        def work() -> CaseRunResult:
            cases = read_cases(read_case_file(), policy.rules.vocabulary)
            return CaseRunResult(policy.version, len(cases), tuple(find_failed_cases(policy, cases)))

        return await asyncio.to_thread(work)
