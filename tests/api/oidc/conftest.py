"""A provider with Ann and Bob, and this host among its clients."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from fixtures.identity_provider import IdentityProvider, identity_provider


@pytest.fixture
def provider() -> Generator[IdentityProvider, None, None]:
    with identity_provider() as started:
        for name in ("ann", "bob"):
            email = f"{name}@example.org"
            started.users[f"sub-{name}"] = {"email": email, "email_verified": True, "name": name.title()}
        yield started
