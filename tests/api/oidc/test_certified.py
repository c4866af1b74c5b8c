"""The same with the certified provider of npm, which nobody here wrote a line of."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from tests.api.oidc.signing_in import CLIENT, SECRET, Place, free_port, place
from tests.api.oidc.test_mcp_client import Person, signing

from fixtures.browsing import Browser
from fixtures.commands import PATIENCE
from fixtures.identity_provider import IdentityProvider
from fixtures.parrot import parrot

pytestmark = pytest.mark.registry
BACK = "http://127.0.0.1:9/"
CONFIGURED = Path(__file__).parent / "certified" / "provider.mjs"


@dataclass
class Agreeing(Person):
    """Somebody who signs in at this provider's pages and agrees there."""

    async def agree(self, url: str) -> None:
        self.sent_to.append(url)
        browser = Browser()
        page = browser.submit(browser.visit(url), login=self.who, password="any", until=BACK)
        for _ in range(10):  # pages, more than any provider has
            if page.location:
                break
            page = browser.submit(page, until=BACK)
        self.came_back = page.location


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed here")
    folder = tmp_path_factory.mktemp("certified")
    shutil.copy(CONFIGURED, folder)
    words = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder), "oidc-provider@9"]
    subprocess.run(words, check=True, capture_output=True, timeout=300, cwd=folder)
    return folder


@pytest.fixture
def behind(installed: Path, tmp_path: Path) -> Generator[Place, None, None]:
    port = free_port()
    issuer = f"http://127.0.0.1:{port}"
    with place(
        IdentityProvider(issuer=issuer),
        tmp_path,
        {"OIDC_REQUIRED_SCOPE": "paddock"},
        plugin=parrot(tmp_path / "parrot"),
    ) as started:
        client = {"client_id": CLIENT, "client_secret": SECRET, "redirect_uris": [started.callback]}
        said = {"issuer": issuer, "port": port, "resource": f"{started.url}/mcp", "clients": [client]}
        words = [str(shutil.which("node")), "provider.mjs", json.dumps(said)]
        with subprocess.Popen(words, cwd=installed, stdout=subprocess.PIPE, text=True) as running:
            try:
                assert running.stdout is not None
                assert any("listening" in line for line in running.stdout)
                yield started
            finally:
                running.terminate()


def test_somebody_signs_in_with_the_certified_provider(behind: Place) -> None:
    browser = Browser()
    page = browser.submit(
        browser.visit(f"{behind.url}/auth/oidc/start?next=/healthz"), login="ann", password="any", until=behind.callback
    )
    page = browser.submit(page, until=behind.callback)  # they agree
    came = browser.open(page.location)
    assert (came.status, came.location) == (303, f"{behind.url}/healthz")
    assert browser.open(f"{behind.url}/api/v1/plugins").status == 200


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_the_official_client_gets_a_token_of_the_certified_provider(behind: Place, mode: Any) -> None:
    behind.paddock("user", "identity", "add", "ann@example.org", "--subject", "ann")
    ann = Agreeing("ann")
    async with (
        httpx2.AsyncClient(auth=signing(behind, ann), timeout=PATIENCE) as http,
        Client(streamable_http_client(f"{behind.url}/mcp", http_client=http), mode=mode) as client,
    ):
        said = await client.call_tool("parrot__say", {"text": "hello"})
    assert said.structured_content is not None and said.structured_content["said"] == "hello"
    assert len(ann.sent_to) == 1
