"""Installing in a running host: bounded in number and time, and nothing is left of what nobody agreed to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from fixtures.packages import native, zipped
from paddock.config.directories import create_directories, find_directories
from paddock.config.load import load_settings
from paddock.core.call import Principal
from paddock.core.clock import SystemClock, SystemRandom
from paddock.core.errors import Busy, Conflict, Denied, Invalid, NeedsConsent, NotFound
from paddock.core.ids import PrincipalId
from paddock.host.plugins.install import InstallLimits, InstallService
from paddock.host.plugins.install_job import InstallJob, InstallStage, InstallStopReason
from paddock.manifest.capability import parse_capability
from paddock.plugins.install.consent import InstallConsent, full_consent
from paddock.plugins.install.plan import PlanAction
from paddock.plugins.install.request import InstallRequest
from paddock.plugins.install.server_trial import ServerTrial, TrialSubject
from paddock.plugins.package.source import PackageSource, SourceKind, parse_source
from paddock.plugins.package.upload import open_upload
from paddock.plugins.store.store import open_plugin_store, staging_root_in
from paddock.plugins.tool_pinning.normalize import Definition
from paddock.runtime.deployment import InstanceKey

ANN = Principal(PrincipalId("user:ann"), interactive=True)
PATIENCE = 60.0


@asynccontextmanager
async def installing(
    home: Path, bounds: InstallLimits | None = None, apply: Callable[[str], Coroutine[Any, Any, None]] | None = None
) -> AsyncGenerator[InstallService, None]:
    async def nothing_runs(plugin: str) -> None:
        pass

    async def no_trials(subject: TrialSubject, by: PrincipalId) -> ServerTrial:
        raise AssertionError(f"{by} tried {subject.manifest.name}")

    async def no_listings(key: InstanceKey, listed: tuple[Definition, ...]) -> None:
        raise AssertionError(f"{key.plugin} listed {listed}")

    directories = find_directories({"PADDOCK_HOME": str(home)}, home)
    create_directories(directories)
    opening = partial(open_plugin_store, directories, load_settings(directories, {}).settings)
    staging = staging_root_in(directories.data)
    trials = (no_trials, no_listings)
    made = InstallService(opening, staging, apply or nothing_runs, *trials, SystemClock(), SystemRandom(), bounds)
    async with asyncio.timeout(PATIENCE), made.accept_jobs():
        yield made


async def reached(one: InstallJob, *wanted: InstallStage) -> InstallJob:
    async for stage in one.watch():
        if stage in wanted:
            return one
    raise AssertionError(f"{one.stage} and never {wanted}: {one.error}")


def begin(within: InstallService, package: Path, **more: object) -> InstallJob:
    source = parse_source(str(package))
    return within.start(InstallRequest(source, **more), source.describe(), ANN.id)  # type: ignore[arg-type]


def agree(one: InstallJob, by: Principal = ANN) -> None:
    """Say yes to all that the job's page shows."""
    assert one.proposal is not None or one.finished
    given = full_consent(one.proposal.package) if one.proposal else InstallConsent("", "")
    one.give_consent(by, given)


def staged(within: InstallService) -> list[str]:
    return [one.name for one in within.staging.iterdir()] if within.staging.is_dir() else []


async def test_a_package_waits_for_a_person_and_is_installed_with_their_yes(tmp_path: Path) -> None:
    async with installing(tmp_path / "home") as within:
        one = await reached(begin(within, native(tmp_path / "notes")), InstallStage.WAITING)
        assert one.proposal is not None
        assert one.proposal.action is PlanAction.INSTALL

        agree(one)
        await one.wait_finished()

        assert (one.stage, one.error) == (InstallStage.DONE, None)
        assert one.outcome is not None
        assert (one.outcome.plugin, one.outcome.version) == ("notes", "1.0.0")
        assert staged(within) == []
        with pytest.raises(Conflict):
            agree(one)


async def test_a_program_does_not_agree_to_what_is_installed(tmp_path: Path) -> None:
    async with installing(tmp_path / "home") as within:
        one = await reached(begin(within, native(tmp_path / "notes")), InstallStage.WAITING)

        with pytest.raises(Denied):
            agree(one, replace(ANN, interactive=False))

        assert one.stage is InstallStage.WAITING


async def test_each_new_capability_and_nothing_less_has_to_be_agreed_to(tmp_path: Path) -> None:
    async with installing(tmp_path / "home") as within:
        one = native(tmp_path / "one", capabilities=["net:api.example.com:443"])
        first = await reached(begin(within, one), InstallStage.WAITING)
        agree(first)
        await first.wait_finished()
        wide = native(tmp_path / "two", version="1.1.0", capabilities=["net:api.example.com:443", "net:*"])
        second = await reached(begin(within, wide, upgrade="notes"), InstallStage.WAITING)

        assert second.proposal is not None
        shown = second.proposal.terms
        for given in ([], ["net:api.example.com:443"]):
            with pytest.raises(NeedsConsent):
                second.give_consent(ANN, shown.accepted(map(parse_capability, given)))
        assert second.stage is InstallStage.WAITING
        second.give_consent(ANN, shown.accepted([parse_capability("net:*")]))
        await second.wait_finished()

        assert second.outcome is not None
        assert (second.outcome.change, second.outcome.version) == (PlanAction.UPGRADE, "1.1.0")


async def test_what_nobody_decides_is_cleared_away(tmp_path: Path) -> None:
    async with installing(tmp_path / "home", InstallLimits(consent_timeout_s=0.05)) as within:
        one = begin(within, native(tmp_path / "notes"))
        await one.wait_finished()

        assert (one.stage, one.stop_reason) == (InstallStage.CANCELLED, InstallStopReason.EXPIRED)
        assert staged(within) == []
        assert one.proposal is None
        assert not (tmp_path / "home" / "data" / "plugins" / "notes").exists()


async def test_a_host_that_closes_leaves_nothing_of_what_waited(tmp_path: Path) -> None:
    async with installing(tmp_path / "home") as within:
        one = await reached(begin(within, native(tmp_path / "notes")), InstallStage.WAITING)
        assert staged(within)

    assert (one.stage, one.stop_reason) == (InstallStage.CANCELLED, InstallStopReason.CLOSING)
    assert staged(within) == []


async def test_a_host_that_closes_does_not_wait_for_what_was_installed_to_start(tmp_path: Path) -> None:
    slow: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    asked = asyncio.Event()

    async def starts(plugin: str) -> None:
        asked.set()
        await slow

    async with installing(tmp_path / "home", apply=starts) as within:
        one = await reached(begin(within, native(tmp_path / "notes")), InstallStage.WAITING)
        agree(one)
        await asked.wait()

    assert one.stage is InstallStage.DONE
    assert slow.cancelled()


async def test_there_are_only_so_many_and_one_that_is_cancelled_makes_room(tmp_path: Path) -> None:
    async with installing(tmp_path / "home", InstallLimits(max_active=1, max_finished=1)) as within:
        first = await reached(begin(within, native(tmp_path / "notes")), InstallStage.WAITING)
        with pytest.raises(Busy):
            begin(within, tmp_path / "notes")

        first.stop(InstallStopReason.CANCELLED)
        await first.wait_finished()
        second = await reached(begin(within, tmp_path / "notes"), InstallStage.WAITING)
        second.stop(InstallStopReason.CANCELLED)
        await second.wait_finished()
        third = begin(within, tmp_path / "notes")

        assert within.find(third.id) is third
        with pytest.raises(NotFound):
            within.find(first.id)


async def test_a_plugin_that_changed_meanwhile_is_not_changed_by_an_older_yes(tmp_path: Path) -> None:
    async with installing(tmp_path / "home") as within:
        slow = await reached(begin(within, native(tmp_path / "one")), InstallStage.WAITING)
        quick = await reached(begin(within, native(tmp_path / "two", version="2.0.0")), InstallStage.WAITING)
        agree(quick)
        await quick.wait_finished()

        agree(slow)
        await slow.wait_finished()

        assert slow.stage is InstallStage.FAILED
        assert slow.error is not None
        assert slow.error.error_code == "plugin.changed_meanwhile"
        assert staged(within) == []


async def test_only_the_plugin_itself_is_an_upgrade_of_it(tmp_path: Path) -> None:
    async with installing(tmp_path / "home") as within:
        first = await reached(begin(within, native(tmp_path / "one")), InstallStage.WAITING)
        agree(first)
        await first.wait_finished()

        other = begin(within, native(tmp_path / "other", "other"), upgrade="notes")
        await other.wait_finished()

        assert other.error is not None
        assert other.error.error_code == "plugin.other_name"


async def test_a_file_that_was_sent_is_recorded_by_its_name_and_goes_with_the_installation(tmp_path: Path) -> None:
    package = zipped(native(tmp_path / "notes"), tmp_path / "notes.zip").read_bytes()
    async with installing(tmp_path / "home") as within:
        with ExitStack() as brought:
            file = brought.enter_context(open_upload(within.staging))
            file.write(package)
            file.finish()
            wanted = InstallRequest(
                PackageSource(SourceKind.ARCHIVE, str(file.path)),
                recorded_as=PackageSource(SourceKind.UPLOAD, "notes.zip"),
            )
            one = within.start(wanted, "notes.zip", ANN.id, brought.pop_all())
        await reached(one, InstallStage.WAITING)
        assert one.proposal is not None
        assert one.proposal.screen is not None
        assert dict(one.proposal.screen.facts)["source"] == "uploaded file notes.zip"
        agree(one)
        await one.wait_finished()
        assert staged(within) == []

        again = within.start(InstallRequest(None, upgrade="notes"), "notes", ANN.id)
        await again.wait_finished()
        assert again.error is not None
        assert again.error.error_code == "source.uploaded"


def test_a_file_that_is_sent_is_no_bigger_than_a_package_may_be_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="too big"), open_upload(tmp_path / "staging", max_bytes=10) as file:
        file.write(b"12345")
        file.write(b"678901")

    assert list((tmp_path / "staging").iterdir()) == []
