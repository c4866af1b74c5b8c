"""Who may not install, what may not be sent, and what is left of a host that is killed."""

from __future__ import annotations

import http.client
import re
import signal
from collections.abc import Callable, Generator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.request import Request

import pytest

from fixtures.browsing import Page
from fixtures.commands import Paddock
from fixtures.daemons import Daemon, daemon
from fixtures.packages import native, write_file, zipped
from fixtures.page_clients import Person, signed_in

ROWS = (
    ("GET", "/install"),
    ("POST", "/install"),
    ("POST", "/install/upload"),
    ("GET", "/install/{id}"),
    ("GET", "/install/{id}/progress"),
    ("POST", "/install/{id}"),
    ("POST", "/install/{id}/cancel"),
    ("GET", "/plugins/notes/upgrade"),
    ("POST", "/plugins/notes/upgrade"),
    ("POST", "/plugins/notes/upgrade/upload"),
    ("POST", "/plugins/notes/versions/pin"),
    ("GET", "/plugins/notes/versions/rollback"),
    ("POST", "/plugins/notes/versions/rollback"),
    ("POST", "/plugins/notes/versions/remove"),
    ("GET", "/plugins/notes/uninstall"),
    ("POST", "/plugins/notes/uninstall"),
)


API = "net:api.example.com:443"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Daemon, None, None]:
    folder = tmp_path_factory.mktemp("refusals")
    paddock = Paddock(folder / "home")
    for version in ("1.0.0", "2.0.0"):
        paddock.quickly(
            "plugin",
            "install",
            native(folder / version, version=version, capabilities=[API]),
            "--yes",
            f"--grant={API}",
        )
    paddock.quickly("user", "add", "ann")
    paddock.quickly("tenant", "add", "acme")
    paddock.quickly("user", "add", "omar", "--tenant", "acme", "--role", "operator")
    with daemon(paddock) as started:
        yield started


@pytest.fixture(scope="module")
def operator(served: Daemon) -> Person:
    return signed_in(served, "operator")


def staged(served: Daemon) -> list[Path]:
    return list(served.paddock.staging.iterdir()) if served.paddock.staging.is_dir() else []


def upload(person: Person, name: str, content: bytes, at: str = "/install/upload", fields: str = "") -> Page:
    head = f'{fields}--edge\r\nContent-Disposition: form-data; name="package"; filename="{name}"\r\n\r\n'
    body = head.encode() + content + b"\r\n--edge--\r\n"
    kind = {"Origin": person.base, "Content-Type": "multipart/form-data; boundary=edge"}
    return person.browser.send(Request(person.base + at, body, kind))


def shown(person: Person, at: str) -> dict[str, Any]:
    """The fields of an installation's page that say which package it shows."""
    return {
        name: [unescape(value) for value in re.findall(f'<input type="hidden" name="{name}" value="([^"]*)"', text)]
        for text in (person.get(at).text,)
        for name in ("digest", "signature", "grant")
    }


def begun(person: Person, at: str, source: Path) -> str:
    """Where an installation is found that was just begun."""
    sent = person.send(at, source=str(source))
    assert sent.status == 303, sent.text
    return sent.location.removeprefix(person.base)


@pytest.mark.parametrize("who", [("ann",), ("omar", "--tenant", "acme")])
def test_only_whoever_operates_the_host_changes_what_is_installed(
    served: Daemon, operator: Person, who: tuple[str, ...], tmp_path: Path
) -> None:
    waiting = begun(operator, "/install", native(tmp_path / "other", "other"))
    wanted, other = waiting.rpartition("/")[2], signed_in(served, *who)

    for method, path in ROWS:
        at = path.replace("{id}", wanted)
        answer = other.get(at) if method == "GET" else other.send(at, confirm="notes")
        assert answer.status == 403, f"{method} {path}"

    assert operator.get(f"/install/{wanted}").status == 200  # it waits as before
    assert operator.send(f"/install/{wanted}/cancel").status == 303
    assert served.paddock.quickly("plugin", "show", "notes", "--json").json["version"] == "2.0.0"


def test_another_tenants_operator_sees_versions_and_neither_places_nor_buttons(
    served: Daemon, operator: Person
) -> None:
    theirs = signed_in(served, "omar", "--tenant", "acme").get("/plugins/notes/versions")
    ours = operator.get("/plugins/notes/versions")

    assert (theirs.status, ours.status) == (200, 200)
    assert "2.0.0" in theirs.text
    assert "/1.0.0" in ours.text
    assert "/1.0.0" not in theirs.text
    assert "/versions/pin" not in theirs.text
    assert signed_in(served, "ann").get("/plugins/notes/versions").status == 403


def test_a_page_of_somebody_else_begins_no_installation(operator: Person, tmp_path: Path) -> None:
    sent = operator.send("/install", origin="http://evil.example", source=str(native(tmp_path / "x", "x")))

    assert sent.status == 403


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("", b"", "Choose a file first"),
        ("notes.exe", b"PK", "is not a .zip"),
        ("notes.zip", b"", "is empty"),
    ],
)
def test_a_file_that_is_no_package_is_refused_at_its_field(
    served: Daemon, operator: Person, name: str, content: bytes, told: str
) -> None:
    answer = upload(operator, name, content)

    assert answer.status == 422
    assert told in answer.text
    assert staged(served) == []


def test_a_package_that_is_broken_fails_by_the_name_it_was_sent_by(served: Daemon, operator: Person) -> None:
    answer = operator.browser.open(upload(operator, "../../no<b>tes.zip", b"not a zip at all").location)

    assert "This did not work" in answer.text
    assert "uploaded file no&lt;b&gt;tes.zip" in answer.text
    assert str(served.paddock.home) not in answer.text
    assert staged(served) == []


def test_more_than_a_package_may_have_is_not_even_read(served: Daemon, operator: Person) -> None:
    cookie = "; ".join(f"{one.name}={one.value}" for one in operator.browser.cookies)
    connection = http.client.HTTPConnection(*served.tcp, timeout=60)
    connection.putrequest("POST", "/install/upload")
    head = {"Cookie": cookie, "Origin": operator.base, "Content-Length": str(200 << 20), "Accept": "text/html"}
    for field, value in (head | {"Content-Type": "multipart/form-data; boundary=edge"}).items():
        connection.putheader(field, value)
    connection.endheaders()
    answer = connection.getresponse()

    assert answer.status == 413
    assert "100 MB" in answer.read().decode()
    assert staged(served) == []
    connection.close()


def test_a_form_that_says_too_much_beside_its_file_is_no_form(served: Daemon, operator: Person) -> None:
    text = f'--edge\r\nContent-Disposition: form-data; name="x"\r\n\r\n{"x" * 70_000}\r\n'

    assert upload(operator, "notes.zip", b"PK", fields=text).status == 400
    assert staged(served) == []


def test_only_so_many_are_under_way_and_the_page_names_them(served: Daemon, operator: Person, tmp_path: Path) -> None:
    source = native(tmp_path / "many", "many")
    waiting = [begun(operator, "/install", source) for _ in range(4)]

    refused = operator.send("/install", source=str(source))
    assert refused.status == 503
    assert "4 installations are under way already" in refused.text
    assert all(f'href="{one}"' in refused.text for one in waiting)
    assert upload(operator, "notes.zip", b"PK").status == 503

    for one in waiting:
        assert operator.send(f"{one}/cancel").status == 303
    assert staged(served) == []
    assert operator.get("/install/ins_nothing").status == 404


def test_what_needs_a_yes_of_its_own_is_asked_for_by_the_host_and_not_by_the_browser(
    served: Daemon, operator: Person, tmp_path: Path
) -> None:
    wide = native(tmp_path / "wide", version="3.0.0", capabilities=["net:api.example.com:443", "net:*"])
    at = begun(operator, "/plugins/notes/upgrade", wide)

    page = shown(operator, at)
    assert operator.send(at, **page).status == 403
    assert operator.send(at, **page | {"grant": "net:*"}).status == 403  # granted, and its danger is not accepted
    assert operator.send(at, **page | {"danger": "net:api.example.com:443"}).status == 403
    assert operator.send(at, **page | {"danger": "nonsense"}).status == 400
    assert operator.send(at, **page | {"grant": "nonsense"}).status == 400
    assert operator.send(at, grant="net:*", danger="net:*").status == 403  # a yes that does not say to which package
    assert served.paddock.quickly("plugin", "show", "notes", "--json").json["version"] == "2.0.0"
    assert operator.send(f"{at}/cancel").status == 303


def test_less_trust_than_before_needs_consent_of_its_own(served: Daemon, operator: Person, tmp_path: Path) -> None:
    quickly, signed, key = served.paddock.quickly, native(tmp_path / "signed", "signed"), tmp_path / "signing.pem"
    public = quickly("key", "add", key, "--json").json["public_key"]
    quickly("key", "trust", public, "--label", "Example Labs")
    quickly("plugin", "sign", signed, "--key", key)
    quickly("plugin", "install", signed, "--yes")
    assert "Signed with a key you trust." in operator.get("/plugins/signed/versions").text
    at = begun(operator, "/plugins/signed/upgrade", native(tmp_path / "other", "signed", "1.0.1"))

    loss = "the installed version is verified (signed by Example Labs); this one is unsigned"
    assert loss in operator.get(at).text
    page = shown(operator, at)
    assert operator.send(at, **page).status == 403
    assert operator.send(at, **page, trust_lost="another loss").status == 403
    assert operator.send(at, **page, trust_lost=loss).location.endswith("/plugins/signed?said=upgraded")


def _change_a_file(served: Daemon) -> None:
    (tree,) = served.paddock.staging.glob("*/tree")
    write_file(tree / "run.sh", "#!/bin/sh\nexec other\n", executable=True)


def _remove_the_signature(served: Daemon) -> None:
    (signature,) = served.paddock.staging.glob("*/tree/paddock.sig")
    signature.unlink()


def _distrust_the_signer(served: Daemon) -> None:
    served.paddock.quickly("key", "remove", "Late Labs", "--yes")


@pytest.mark.parametrize(
    ("meanwhile", "reason"),
    [
        (_change_a_file, "are not the ones that you were shown"),
        (_remove_the_signature, "now it is unsigned"),
        (_distrust_the_signer, "now it is community-signed"),
    ],
)
def test_a_package_that_changes_while_a_person_reads_its_page_is_not_installed(
    served: Daemon, operator: Person, tmp_path: Path, meanwhile: Callable[[Daemon], None], reason: str
) -> None:
    quickly, package, key = served.paddock.quickly, native(tmp_path / "late", "late"), tmp_path / "signing.pem"
    public = quickly("key", "add", key, "--json").json["public_key"]
    quickly("key", "trust", public, "--label", "Late Labs")
    quickly("plugin", "sign", package, "--key", key)
    at = begun(operator, "/install", package)
    page = shown(operator, at)
    meanwhile(served)

    failed = operator.followed(at, **page)

    assert reason in failed.text
    assert "Nothing was changed" in failed.text
    assert "late" not in served.paddock.listed()
    assert staged(served) == []
    if meanwhile is not _distrust_the_signer:
        _distrust_the_signer(served)


def test_a_version_in_use_is_not_removed_and_one_that_moved_is_shown_anew(served: Daemon, operator: Person) -> None:
    refused = operator.send("/plugins/notes/versions/remove", version="2.0.0")
    assert refused.status == 409
    assert "2.0.0 is the version in use" in refused.text

    moved = operator.send("/plugins/notes/versions/rollback", **{"to": "1.0.0", "from": "1.5.0"})
    assert moved.status == 409
    assert "It changed while you were deciding" in moved.text


def test_a_killed_host_leaves_nothing_of_what_was_sent_and_fetched(tmp_path: Path) -> None:
    paddock = Paddock(tmp_path / "home")
    with daemon(paddock) as killed:
        person = signed_in(killed, "operator")
        package = zipped(native(tmp_path / "notes"), tmp_path / "notes.zip").read_bytes()
        assert upload(person, "notes.zip", package).status == 303
        assert len(staged(killed)) == 2  # the file, and what is in it
        killed.stop(signal.SIGKILL)
    with daemon(paddock) as next_one:
        assert staged(next_one) == []
        assert re.search("No plugins yet", signed_in(next_one, "operator").get("/plugins").text)
