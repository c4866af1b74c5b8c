"""Several requests on one connection, the next sent before the last was answered."""

from __future__ import annotations

import re
import socket
import struct

import pytest

from fixtures.commands import PATIENCE
from fixtures.daemons import eventually
from fixtures.people import Peopled

CALL = re.compile(rb"/api/v1/calls/(call_\w+)")
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


def waiting_for(peopled: Peopled) -> bytes:
    """A call that tells until somebody ends it."""
    key = peopled.keys["ann"].encode()
    return (
        b"POST /api/v1/plugins/parrot/call/wait HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n"
        b"Authorization: Bearer %b\r\nContent-Length: 0\r\n\r\n" % key
    )


def heard_until(connection: socket.socket, words: bytes) -> bytes:
    said = b""
    while words not in said:
        chunk = connection.recv(65_536)
        assert chunk, said
        said += chunk
    return said


def test_whoever_hangs_up_ends_what_is_answered_also_with_more_requests_behind_it(peopled: Peopled) -> None:
    with socket.create_connection(peopled.daemon.tcp, PATIENCE) as connection:
        connection.sendall(waiting_for(peopled) + HEALTH)
        found = CALL.search(heard_until(connection, b"event: event"))
        assert found
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    where = f"/calls/{found[1].decode()}"
    eventually(lambda: peopled.ask("ann", "GET", where).body["status"] == "cancelled", "the call ends")


@pytest.mark.req("B-23", "framing of requests")
def test_nonsense_behind_a_request_is_not_answered_in_the_midst_of_its_answer(peopled: Peopled) -> None:
    with socket.create_connection(peopled.daemon.tcp, PATIENCE) as connection:
        connection.sendall(waiting_for(peopled))
        said = heard_until(connection, b"event: event")
        connection.sendall(HEALTH + b"nonsense\r\n\r\n")
        while chunk := connection.recv(65_536):
            said += chunk

    assert said.count(b"HTTP/1.1 ") == 1, said
