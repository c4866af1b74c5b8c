"""The client of the commands for tenants, people, groups, keys and consents, and the paths of what they name."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from paddock.cli.client.api_client import ApiClient, named_path, open_client
from paddock.cli.output.report import print_message
from paddock.core.errors import Invalid, OperatorError
from paddock.core.ids import DEFAULT_TENANT

_MAX_KEY_ID_CHARS = 20


@contextmanager
def open_identity_client(tenant: str = DEFAULT_TENANT) -> Generator[ApiClient, None, None]:
    """Yield a client as `open_client` does.

    A malformed name is reported as what it is: its path in the request's body means nothing to the person who typed it
    as an argument.
    """
    try:
        with open_client(tenant) as client:
            yield client
    except Invalid as error:
        name = next((problem for problem in error.problems if problem.code == "principal.bad_name"), None)
        if name is None:
            raise
        raise OperatorError(name.message, code=name.code, hint=name.hint) from None


def person_path(name: str, tenant: str) -> str:
    """Return the path of a person.

    Raises:
        NotFound: no person can have this name.
    """
    from paddock.principals.people import unknown_person_error

    return named_path("/people", name, lambda: unknown_person_error(tenant, name))


def key_path(key: str, tenant: str) -> str:
    """Return the path of an API key. A token that was typed instead of an id is not sent.

    Raises:
        NotFound: no key can have this id.
    """
    from paddock.principals.api_keys import unknown_key_error

    if len(key) > _MAX_KEY_ID_CHARS:
        raise unknown_key_error(tenant, key)
    return named_path("/api-keys", key, lambda: unknown_key_error(tenant, key))


def report_retained_log(removal: Mapping[str, Any]) -> None:
    """Print which file still holds what was removed, if there is one."""
    if "log" in removal:
        print_message(f"  {removal['log']} still contains the erased rows until its current readers finish")
