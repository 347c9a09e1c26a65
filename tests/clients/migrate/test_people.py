"""Users, groups and policies of lakeFS are made here, once, with new keys."""

from collections.abc import Iterator
from typing import Any

import pytest

from lakebed.clients.http.http import Client
from lakebed.clients.http.paging import list_items
from lakebed.clients.http.settings import ClientSettings
from lakebed.clients.migrate.users import migrate_users
from lakebed.testing.servers.lakebed import LakebedServer
from tests.clients.migrate.served import answering

STATEMENT = [{"effect": "allow", "action": ["fs:ReadObject"], "resource": "*"}]
LISTS: dict[str, list[dict[str, Any]]] = {
    "policies": [
        {"id": "ReadLake", "statement": STATEMENT},
        {"id": "Broken", "statement": [{"effect": "perhaps", "action": [], "resource": "*"}]},
    ],
    "groups": [{"id": "Analysts", "creation_date": 1}],
    "groups/Analysts/policies": [{"id": "ReadLake", "statement": STATEMENT}],
    "groups/Analysts/members": [{"id": "ada", "creation_date": 1}],
    "users": [{"id": "ada", "creation_date": 1}, {"id": "bob", "creation_date": 1}],
    "users/ada/policies": [],
    "users/bob/policies": [{"id": "ReadLake", "statement": STATEMENT}],
}


@pytest.fixture
def lakefs() -> Iterator[Client]:
    """The lists of a lakeFS with users."""

    def answer(_method: str, path: str) -> tuple[int, Any]:
        name = path.partition("?")[0].removeprefix("/api/v1/auth/")
        return 200, {"results": LISTS[name], "pagination": {"has_more": False, "next_offset": ""}}

    with answering(answer) as endpoint:
        client = Client(ClientSettings(endpoint, "k", "s"))
        yield client
        client.close()


@pytest.mark.slow
def test_people_are_made_once_and_get_new_keys(
    lakefs: Client, sqlite_lakebed: LakebedServer
) -> None:
    server = sqlite_lakebed
    keys = ClientSettings(server.endpoint, server.access_key_id, server.secret_access_key)
    target = Client(keys)
    moved = migrate_users(lakefs, target)
    assert (moved.policies, moved.groups) == (1, 1)
    assert [name for name, _, _ in moved.keys] == ["ada", "bob"]
    assert len(moved.problems) == 1
    assert moved.problems[0].startswith("policies Broken: ")
    of_bob = [each.id for each in list_items(target.auth.list_user_policies, "bob")]
    members = [each.id for each in list_items(target.auth.list_members, "Analysts")]
    assert (of_bob, members) == (["ReadLake"], ["ada"])
    _, key_id, secret = moved.keys[0]
    ada = Client(ClientSettings(server.endpoint, key_id, secret))
    assert ada.auth.current_user().user.id == "ada"
    again = migrate_users(lakefs, target)
    assert (again.policies, again.groups, again.keys) == (0, 0, [])
    for client in (ada, target):
        client.close()
