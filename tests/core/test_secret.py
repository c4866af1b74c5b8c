"""A secret stays one, whatever tries to print or store it."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import dataclass

import orjson
import pytest

from paddock.core.secret import Secret

VALUE = "canary-5f2d"


@dataclass
class Holder:
    token: Secret


def test_no_way_of_printing_shows_the_value() -> None:
    secret = Secret(VALUE)
    shown = [repr(secret), str(secret), f"{secret}", f"{secret!r:>40}", f"{secret:>40}", "%s" % secret, repr([secret])]  # noqa: UP031
    assert VALUE not in "".join([*shown, repr(Holder(secret)), repr({"k": secret}), str(dir(secret))])
    assert secret.reveal() == VALUE


@pytest.mark.parametrize("write", [json.dumps, orjson.dumps, pickle.dumps, hash, vars])
def test_writing_it_out_by_accident_fails_without_showing_it(write: object) -> None:
    with pytest.raises(TypeError) as caught:
        write(Secret(VALUE))  # type: ignore[operator]
    assert VALUE not in str(caught.value)


def test_secrets_compare_by_value_and_never_with_plain_text() -> None:
    assert Secret(VALUE) == Secret(VALUE)
    assert Secret(VALUE) != Secret("other")
    assert Secret("ä\ud800") == Secret("ä\ud800")
    assert Secret(VALUE) != VALUE
    assert not Secret("")


def test_copies_stay_secret() -> None:
    holder = copy.deepcopy(Holder(Secret(VALUE)))
    assert holder.token.reveal() == VALUE
    assert copy.copy(holder.token) == holder.token
