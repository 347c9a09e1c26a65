"""Who is it, and may it? On the stores that need no server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakebed.auth import Action, AlreadySetUp, AuthService, Denied, Permission
from lakebed.auth.actions import object_arn
from lakebed.kv import Store, open_store
from tests.unit.auth.kit import QUICKSTART, service

READ = Permission(Action.READ_OBJECT, object_arn("lake", "a/b"))
WRITE = Permission(Action.WRITE_OBJECT, object_arn("lake", "a/b"))


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/lakebed.db"
    with open_store(url) as opened:
        yield opened


@pytest.fixture
def auth(store: Store) -> AuthService:
    return service(store)


def test_an_installation_is_set_up_once(auth: AuthService) -> None:
    assert not auth.is_set_up()
    new = auth.setup("admin", QUICKSTART)
    assert auth.is_set_up()
    identity = auth.authenticate(new.access_key_id, new.secret_access_key)
    assert identity.user_id == "admin"
    for action in Action:
        auth.authorize(identity, Permission(action, "*"))
    with pytest.raises(AlreadySetUp):
        auth.setup("mallory")


def test_a_viewer_reads_and_does_not_write(auth: AuthService) -> None:
    auth.setup("admin")
    auth.users.create("jane", email="jane@example.com")
    new = auth.credentials.create("jane")
    identity = auth.authenticate(new.access_key_id, new.secret_access_key)
    assert identity.committer == "jane@example.com"
    with pytest.raises(Denied):
        auth.authorize(identity, READ)
    auth.memberships.add("jane", "Viewers")
    auth.authorize(identity, READ)
    with pytest.raises(Denied, match="fs:WriteObject on arn:lakefs:fs:::repository/lake"):
        auth.authorize(identity, WRITE)
