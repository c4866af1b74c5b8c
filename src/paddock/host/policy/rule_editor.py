"""Edits rule files while the host runs: a change is checked, tested and accepted before it comes into force.

A file with a mistake is not saved. Who saved a file is recorded before it is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import PurePath

from paddock.config.settings import PolicySettings
from paddock.core.action import Action
from paddock.core.call import Principal
from paddock.core.clock import Clock, Random
from paddock.core.errors import Conflict, Invalid, NotFound, OperatorError, PaddockError
from paddock.core.events.system import PolicyEdited
from paddock.core.ids import DEFAULT_TENANT, Tenant
from paddock.core.printable import printable
from paddock.gate.catalogue.catalogue import Catalogue
from paddock.host.identity.caller import require_interactive_person
from paddock.host.policy.active_policy import ActivePolicy
from paddock.host.policy.entities import installed_callables
from paddock.host.policy.known_names import known_names
from paddock.host.policy.recorded_request import RequestBuilder, served_allowlists, served_targets
from paddock.host.policy.rule_change import (
    MAX_RECENT_CALLS,
    FailedPolicyCase,
    RuleChange,
    changed_decisions,
    changed_rule_ids,
    lost_callables,
    newly_failed_cases,
    requests_of,
)
from paddock.ledger.read.entries import EntryFilter, list_entries
from paddock.ledger.write.append import TransactionLedger
from paddock.ledger.write.writer import LedgerWriter
from paddock.plugins.store.store import PluginStore
from paddock.plugins.store.thread import StoreThread
from paddock.policy.cases import CASES_FILE, PolicyCase, parse_cases, read_cases
from paddock.policy.engine import Policy
from paddock.policy.entity_names import find_unknown_entities
from paddock.policy.rule_folder import MAX_EDITED_CHARS, RuleFolder, StoredRuleFile, text_digest, validate_file_name
from paddock.policy.rules import SHIPPED_ORIGIN, RuleFile, checked_rules, shipped_rule_file
from paddock.policy.schema import build_vocabulary
from paddock.policy.versions import load_version
from paddock.store.database import Database

_CALL_ENDINGS = EntryFilter(type="call.ended")


class RuleEditor:
    """Reads and changes the rule files of this host. Only its operators may, in person.

    Args:
        views: The plugin store and database, for reads.
        database: Records who changed a file.
        ledger: Flushed, so that a change is tried on the latest calls too.
        active_policy: The policy in force.
        catalogue: Returns a tenant's current catalogue.
        folder: The files.
        settings: The tags that rules may name.
    """

    def __init__(
        self,
        views: StoreThread,
        database: Database,
        ledger: LedgerWriter,
        active_policy: ActivePolicy,
        catalogue: Callable[[Tenant], Catalogue],
        folder: RuleFolder,
        settings: PolicySettings,
        clock: Clock,
        random: Random,
    ) -> None:
        self._views = views
        self._database = database
        self._ledger = ledger
        self._active_policy = active_policy
        self._catalogue = catalogue
        self._folder = folder
        self._settings = settings
        self._clock = clock
        self._random = random
        self._changes = asyncio.Lock()  # one at a time: each is checked against the other files

    async def list_files(self) -> list[StoredRuleFile]:
        """Return the rule files, by name; raises as `RuleFolder.list_files` does."""
        return await asyncio.to_thread(self._folder.list_files)

    async def read(self, name: str) -> StoredRuleFile:
        """Return a rule file.

        Raises:
            NotFound: there is none of that name.
        """
        return _require_file(await self.list_files(), validate_file_name(name))

    async def text_in_version(self, name: str, version: str) -> str:
        """Return the rules that a file had in an earlier version, without the comments between them.

        Raises:
            NotFound: no such version was ever in force, or it had no such file.
        """
        name = validate_file_name(name)
        rules = await self._views.run(lambda store: store.database.read(lambda tx: load_version(tx, version)))
        sources = [
            rule.source
            for rule in (rules.rules if rules is not None else ())
            if rule.origin != SHIPPED_ORIGIN and PurePath(rule.origin).name == name
        ]
        if not sources:
            raise NotFound(
                f"the version {printable(version, 60)} has no rules of a file {printable(name, 80)}",
                code="policy.no_file",
            )
        return "\n\n".join(sources) + "\n"

    async def read_cases(self) -> StoredRuleFile | None:
        """Return the operator's own test cases as they are written; None if there are none."""
        return await asyncio.to_thread(self._folder.read_cases)

    async def parse_cases(self, text: str) -> list[PolicyCase]:
        """Return the cases of a text; it may name installed callables.

        Raises:
            Invalid: with every mistake.
        """
        vocabulary = self._active_policy.policy.rules.vocabulary
        document = await asyncio.to_thread(parse_cases, text)
        return await self._views.run(lambda store: read_cases(document, vocabulary, installed_callables(store).find))

    async def own_cases(self) -> list[PolicyCase]:
        """Return the operator's own test cases; raises as `read_cases` and `parse_cases` do."""
        stored = await self.read_cases()
        return await self.parse_cases(stored.text) if stored else []

    async def save_cases(self, by: Principal, text: str, *, based_on: str | None) -> None:
        """Save the operator's own test cases; an empty text removes them. They decide nothing.

        Args:
            by: The person who does.
            text: The cases, in YAML.
            based_on: The digest of the text that was changed; None if there was none.

        Raises:
            Denied: it is a program.
            Invalid, OperatorError: the text has mistakes, or is too long.
            Conflict: they were changed meanwhile.
            HostError: the file cannot be written, and is as it was.
        """
        require_interactive_person(by)
        if len(text) > MAX_EDITED_CHARS:
            raise _too_long_error(CASES_FILE)
        if text:
            await self.parse_cases(text)
        async with self._changes:
            await asyncio.to_thread(self._folder.require_cases_unchanged, based_on)
            kind = "removed" if not text else "added" if based_on is None else "changed"
            digest, version = text_digest(text) if text else None, self._active_policy.policy.version
            await self._record(PolicyEdited(CASES_FILE, kind, digest, version, by.id))
            try:
                await asyncio.to_thread(self._folder.write_cases, text, based_on)
            except PaddockError:
                await self._record(PolicyEdited(CASES_FILE, "failed", digest, version, by.id))
                raise

    async def check(self, by: Principal, name: str, text: str | None) -> RuleChange:
        """Return what a file of this text would do, or its removal if there is none. Changes nothing.

        Raises:
            Invalid: the rules have mistakes, each with its file and line.
            OperatorError: the name is invalid, or the text too long.
        """
        return await self._assess(by, validate_file_name(name), text)

    async def save(
        self, by: Principal, name: str, text: str, *, based_on: str | None, accept: str | None = None
    ) -> tuple[StoredRuleFile, RuleChange]:
        """Save a file and bring it into force.

        Args:
            by: The person who does.
            name: The file.
            text: Its text.
            based_on: The digest of the text that was changed; None for a new file.
            accept: The version of the rules whose consequences the person accepts.

        Raises:
            Denied: it is a program.
            Invalid, OperatorError: see `check`.
            Conflict: the file was changed meanwhile, or the change has consequences that were not accepted.
            HostError: the file cannot be written, and is as it was.
        """
        stored, change = await self._change(by, validate_file_name(name), text, based_on, accept)
        assert stored is not None
        return stored, change

    async def remove(self, by: Principal, name: str, *, based_on: str, accept: str | None = None) -> RuleChange:
        """Remove a file and its rules; raises as `save` does."""
        _, change = await self._change(by, validate_file_name(name), None, based_on, accept)
        return change

    async def _change(
        self, by: Principal, name: str, text: str | None, based_on: str | None, accept: str | None
    ) -> tuple[StoredRuleFile | None, RuleChange]:
        require_interactive_person(by)
        async with self._changes:
            await asyncio.to_thread(self._folder.require_unchanged, name, based_on)
            change = await self._assess(by, name, text)
            if change.needs_acceptance and accept != change.version:
                raise not_accepted_error(change)
            kind = "removed" if text is None else "added" if based_on is None else "changed"
            edited = PolicyEdited(name, kind, text_digest(text) if text is not None else None, change.version, by.id)
            await self._record(edited)  # first: no rule may come into force without its author
            try:
                stored = await asyncio.to_thread(self._write, name, text, based_on)
            except PaddockError:
                await self._record(PolicyEdited(name, "failed", edited.digest, change.version, by.id))
                raise
            await self._active_policy.reload_if_changed()
        return stored, change

    def _write(self, name: str, text: str | None, based_on: str | None) -> StoredRuleFile | None:
        if text is not None:
            return self._folder.write(name, text, based_on)
        assert based_on is not None
        self._folder.remove(name, based_on)
        return None

    async def _record(self, event: PolicyEdited) -> None:
        await self._database.write(
            lambda tx: TransactionLedger(tx, self._clock, self._random, DEFAULT_TENANT, by=event.by).publish(event)
        )

    async def _assess(self, by: Principal, name: str, text: str | None) -> RuleChange:
        if text is not None and len(text) > MAX_EDITED_CHARS:
            raise _too_long_error(name)
        before = self._active_policy.policy
        after = await asyncio.to_thread(self._policy_with, name, text)
        own_cases, unreadable = list[PolicyCase](), tuple[FailedPolicyCase, ...]()
        try:
            own_cases = await self.own_cases()
        except PaddockError as error:  # the change is refused until a person knows that these do not run
            unreadable = (FailedPolicyCase(CASES_FILE, f"these cases of yours cannot be run: {error.message}"),)
        tests, failed = await asyncio.to_thread(newly_failed_cases, before, after, own_cases)
        with suppress(PaddockError):  # what is recorded can still be compared
            await self._ledger.flush()
        catalogue, now, tenant = self._catalogue(by.tenant), self._clock.now(), by.tenant
        names = catalogue.names()

        def compare(store: PluginStore) -> RuleChange:
            builder = RequestBuilder(store, now, served_targets(catalogue), served_allowlists(catalogue))
            entries = store.database.read(lambda tx: list_entries(tx, tenant, _CALL_ENDINGS, limit=MAX_RECENT_CALLS))
            examined, changed = changed_decisions(before, after, entries, builder, tenant)
            warnings = find_unknown_entities(after.rules, store.database.read(known_names))
            return RuleChange(
                name,
                after.version,
                before.version,
                *changed_rule_ids(before.rules, after.rules),
                tuple(problem for problem in warnings if PurePath(problem.path).name == name),
                (*unreadable, *failed),
                tests,
                examined,
                changed,
                lost_callables(before, after, requests_of(by.id, names, builder, tenant)),
            )

        return await self._views.run(compare, tenant)

    def _policy_with(self, name: str, text: str | None) -> Policy:
        """Return the policy with one file changed; raises Invalid with every mistake of all files."""
        others = [
            self._folder.rule_file(file.name, file.text) for file in self._folder.list_files() if file.name != name
        ]
        files: list[RuleFile] = [shipped_rule_file(), *others]
        if text is not None:
            files.append(self._folder.rule_file(name, text))
            files[1:] = sorted(files[1:], key=lambda file: file.origin)  # the order in which they are loaded
        try:
            return Policy(checked_rules(files, build_vocabulary(self._settings.tags)))
        except Invalid as error:
            raise error.with_remedy(hint=error.hint) from error  # its action names a command that checks other files


def _require_file(files: list[StoredRuleFile], name: str) -> StoredRuleFile:
    for file in files:
        if file.name == name:
            return file
    raise NotFound(
        f"there is no rule file {printable(name, 80)}", code="policy.no_file", action=Action.of("policy.show")
    )


def _too_long_error(name: str) -> OperatorError:
    return OperatorError(
        f"{name} would have more than {MAX_EDITED_CHARS:,} characters",
        code="policy.too_large",
        hint="split it into several files",
    )


def not_accepted_error(change: RuleChange) -> Conflict:
    """Build the error for a change whose consequences are not accepted yet."""
    parts = [
        f"{len(change.failed_tests)} policy tests fail" if change.failed_tests else "",
        f"recent calls would be decided otherwise: {len(change.changed_decisions)}" if change.changed_decisions else "",
        f"you could no longer call {', '.join(change.lost[:3])}{' …' if len(change.lost) > 3 else ''}"
        if change.lost
        else "",
    ]
    return Conflict(
        f"the change is not saved: {'; '.join(filter(None, parts))}",
        code="policy.not_accepted",
        hint=f"accept the version {change.version} if that is what you want",
        details={"change": change.to_json()},
    )
