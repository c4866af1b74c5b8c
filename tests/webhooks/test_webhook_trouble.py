"""Webhooks in trouble: certificates that nobody trusts, a disk that is full, and two daemons at one database."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

from tests.capabilities.http.outside import authority
from tests.webhooks.receiver import Receiver, receiving
from tests.webhooks.test_webhooks import QUICK, groups, happen, hooked

from fixtures.commands import PATIENCE, Paddock
from fixtures.daemons import daemon, eventually
from fixtures.small_disks import fill, small_disk


def test_a_receiver_whose_certificate_nobody_signed_gets_nothing(tmp_path: Path) -> None:
    theirs, _ = authority(tmp_path, "127.0.0.1")
    trusting = {"SSL_CERT_FILE": str(tmp_path / "authority.pem")}
    with receiving(theirs) as receiver:
        stranger = Paddock(tmp_path / "home", more=QUICK)
        hook = hooked(stranger, receiver)
        said = stranger("webhook", "test", hook, "--json", code=1).error
        assert (said["code"], said["details"]["reason"]) == ("webhook.not_taken", "untrusted")
        assert receiver.got == []
        friend = Paddock(tmp_path / "home", more=QUICK | trusting)
        assert friend("webhook", "test", hook, "--json").json["status"] == 204
        assert receiver.got[0].signed_by == tuple(receiver.secrets)


def test_while_the_disk_is_full_nothing_is_lost_and_with_room_it_goes_on(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "3m") as disk, receiving() as receiver:
        paddock = Paddock(disk / "home", more=QUICK)
        hook = hooked(paddock, receiver, "--type", "group.*")
        with daemon(paddock) as served:
            happen(paddock, "before")
            receiver.of("group.changed")
            eventually(lambda: delivered(paddock, hook) == 1, "it is not noted")
            receiver.hold = threading.Event()
            receiver.asked.clear()
            happen(paddock, "during")
            assert receiver.asked.wait(PATIENCE)
            filler = fill(disk)
            receiver.hold.set()
            receiver.wait_for(lambda got: "during" in groups(got))  # which cannot be noted
            eventually(lambda: any("stays as it is" in line for line in served.log), "it was noted all the same")
            filler.unlink()
            happen(paddock, "after")
            receiver.wait_for(lambda got: "after" in groups(got))
            eventually(lambda: delivered(paddock, hook) == 3, "it does not go on")
        assert list(dict.fromkeys(groups(receiver.got))) == ["before", "during", "after"]


def test_two_daemons_at_one_database_deliver_each_event_once(tmp_path: Path, postgres_address: str) -> None:
    one = Paddock(tmp_path / "one" / "home", store=postgres_address, more=QUICK)
    other = Paddock(tmp_path / "other" / "home", store=postgres_address, more=QUICK)
    for folder in ("one", "other"):
        (tmp_path / folder).mkdir()
    with receiving() as receiver:
        for _ in range(3):
            hooked(one, receiver, "--type", "group.*")
        # The key that signing secrets are sealed under is each home's own, until somebody gives it to the others.
        shutil.copytree(
            one.home / "state", other.home / "state", ignore=shutil.ignore_patterns("node", "runs", "*.log")
        )
        names = [f"g{number}" for number in range(8)]
        with daemon(one), daemon(other):
            happen(one, *names[:4])
            happen(other, *names[4:])
            got = receiver.of("group.changed", 3 * len(names))
            for secret in receiver.secrets:
                assert groups([each for each in got if each.signed_by == (secret,)]) == names
            eventually(lambda: sum(delivered(one, hook) for hook in hooks(one)) == 3 * len(names), "not all are noted")
        assert len(receiver.got) == 3 * len(names)


def hooks(paddock: Paddock) -> list[str]:
    return [each["id"] for each in paddock.quickly("webhook", "list", "--json").json["webhooks"]]


def delivered(paddock: Paddock, hook: str) -> int:
    return paddock.quickly("webhook", "show", hook, "--json").json["delivered"]


def test_a_webhook_that_is_switched_off_in_the_middle_is_sent_nothing_more(tmp_path: Path) -> None:
    with receiving() as receiver:
        paddock = Paddock(tmp_path / "home", more=QUICK)
        receiver.always = 500
        hook = hooked(paddock, receiver, "--type", "group.*")
        happen(paddock, "first", "second")
        with daemon(paddock):
            receiver.of("group.changed")
            paddock("webhook", "disable", hook)
            stopped = _count_after_a_look(receiver, paddock)
            paddock("webhook", "enable", hook, "--from-now")
            receiver.always = 204
            happen(paddock, "third")
            receiver.wait_for(lambda got: "third" in groups(got))
        assert groups(receiver.got)[stopped:] == ["third"], "what was meant to be left out is"


def _count_after_a_look(receiver: Receiver, paddock: Paddock) -> int:
    """How many came, once whatever was on its way has arrived: another webhook, made after, has been served."""
    with receiving() as witness:
        other = hooked(paddock, witness, "--type", "group.*")
        happen(paddock, "between")
        witness.of("group.changed")
        paddock("webhook", "remove", other, "--yes")
    return len(receiver.got)
