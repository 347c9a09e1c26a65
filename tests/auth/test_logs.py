"""What users and permissions write to logs and traces, and that no secret is in it."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lakebed.auth import AuthenticationFailed, AuthService, KeyPair, ServerKeys
from lakebed.auth import records_pb2 as pb
from lakebed.auth.entities.keys import AUTH, SETUP, SETUP_NAME, USERS
from lakebed.base import tracing
from lakebed.kv import Store
from lakebed.kv.records import Records
from tests.auth.kit import NO_ADDRESS, READ, Clockwork, allow, service

OTHER_KEYS = ServerKeys(encryption=bytes(32), signing=bytes(64))
MINE = KeyPair(access_key_id="AKIAMINE", secret_access_key="a secret of mine")


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG, "lakebed")
    return caplog


def lines(log: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    found = [(record.levelname.lower(), record.getMessage()) for record in log.records]
    log.clear()
    return found


def test_changes_are_logged(auth: AuthService, log: pytest.LogCaptureFixture) -> None:
    auth.users.create("jane")
    auth.policies.create("all", [allow("*")])
    auth.policies.update("all", [allow("fs:*")])
    auth.user_policies.add("jane", "all")
    auth.user_policies.remove("jane", "all")
    auth.credentials.create("jane", MINE)
    auth.credentials.delete("jane", MINE.access_key_id)
    auth.policies.delete("all")
    assert lines(log) == [
        ("info", "user jane was created"),
        ("info", "policy all was created"),
        ("info", "policy all was changed"),
        ("info", "user jane: policy all was added"),
        ("info", "user jane: policy all was removed"),
        ("info", "access key AKIAMINE of user jane was created"),
        ("info", "access key AKIAMINE of user jane was deleted"),
        ("info", "policy all was deleted"),
    ]


def test_a_refused_login_has_a_reason_without_secrets(
    auth: AuthService, log: pytest.LogCaptureFixture
) -> None:
    auth.setup("admin", MINE)
    assert lines(log) == [("info", "installation set up with first administrator admin")]
    auth.login(MINE.access_key_id, MINE.secret_access_key)
    assert lines(log) == []
    for key, secret, reason in (
        (MINE.access_key_id, "wrong-secret", "wrong secret for access key AKIAMINE"),
        ("AKIANOBODY", "wrong-secret", "access key AKIANOBODY is unknown"),
        # Whoever mixes up the two sends a secret where the id belongs.
        (MINE.secret_access_key, MINE.access_key_id, "access key (not shown) is unknown"),
        ("wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY", "x", "access key (not shown) is unknown"),
        ("AKIA\nforged line", "x", "access key (not shown) is unknown"),
    ):
        with pytest.raises(AuthenticationFailed) as caught:
            auth.login(key, secret)
        assert (caught.value.reason, str(caught.value)) == (reason, str(AuthenticationFailed()))
        assert lines(log) == [], "whoever refuses the request logs it, if there are not too many"


def test_a_secret_of_another_server_key_is_logged(
    store: Store, auth: AuthService, log: pytest.LogCaptureFixture
) -> None:
    auth.setup("admin", MINE)
    log.clear()
    other = service(store, keys=OTHER_KEYS)
    with pytest.raises(AuthenticationFailed):
        other.secret_for(MINE.access_key_id)
    ((level, text),) = lines(log)
    assert level == "warning"
    assert text.startswith("cannot decrypt the secret of access key AKIAMINE: ")


def test_leftovers_of_other_processes_are_logged(
    store: Store, log: pytest.LogCaptureFixture
) -> None:
    auth = service(store, Clockwork())
    first = pb.FirstUser(user="first", unique_id="1")
    Records(store, SETUP, AUTH).set(SETUP_NAME, pb.Setup(attempt_id="1", user=first))
    Records(store, USERS, AUTH).set(b"jane", pb.User(unique_id="2", deleting=True))
    auth.setup("admin")
    assert lines(log)[0] == (
        "warning",
        "an earlier setup did not finish within 5 seconds: starting over",
    )
    auth.users.create("jane")
    assert lines(log) == [
        ("warning", "user jane is partly deleted: finishing the deletion"),
        ("info", "user jane was created"),
    ]


def test_calls_are_spans_of_a_trace(auth: AuthService) -> None:
    spans: list[str] = []

    @contextmanager
    def start_span(name: str) -> Iterator[None]:
        spans.append(name)
        yield

    auth.setup("admin", MINE)
    tracing.turn_on(start_span)
    try:
        identity = auth.authenticate(MINE.access_key_id, MINE.secret_access_key)
        auth.authorize(identity, NO_ADDRESS, READ)
    finally:
        tracing.turn_off()
    own = [name for name in spans if name.startswith("auth.")]
    assert own == ["auth.authenticate", "auth.secret_for", "auth.authorize"]
