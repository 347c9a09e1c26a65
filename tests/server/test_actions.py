"""Hooks by the REST API: gates that refuse, runs that can be asked for, calls as the user."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from falcon.testing import Result

from lakebed.auth import KeyPair
from lakebed.lake.hooks import kinds
from lakebed.lake.hooks.processes import ProcessPool
from lakebed.server.background import jobs_of
from lakebed.server.hook_calls import DEPTH_MAX
from tests.kit.receiver import Receiver
from tests.kit.served import eventually
from tests.server.kit import ADMIN, REPOSITORY, Server, server

RUNS = f"/repositories/{REPOSITORY}/actions/runs"


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


@pytest.fixture
def world(receiver: Receiver) -> Iterator[Server]:
    receiver.bodies.clear()
    receiver.statuses.clear()
    with server(hooks__allow_private_networks=True) as made:
        yield made


def put_action(world: Server, url: str, *events: str, more: str = "") -> None:
    on = "".join(f"  {event}:\n" for event in events)
    text = (
        f"name: gate\non:\n{on}hooks:\n"
        f"  - id: check\n    type: webhook\n    properties: {{url: '{url}'{more}}}\n"
    )
    world.put("_lakefs_actions/gate.yaml", text.encode())


def commit(world: Server, pair: KeyPair = ADMIN) -> Result:
    path = f"/repositories/{REPOSITORY}/branches/main/commits"
    body = {"message": "why", "metadata": {"k": "v"}}
    return world.call("POST", path, json=body, pair=pair)


def test_a_webhook_lets_a_commit_pass_or_refuses_it(world: Server, receiver: Receiver) -> None:
    put_action(world, f"{receiver.url}/gate", "pre-commit", "post-commit")
    receiver.statuses["/gate"] = 500
    refused = commit(world)
    assert refused.status_code == 412
    run = world.call("GET", RUNS).json["results"][0]
    message = refused.json["message"]
    assert message.startswith(
        f"pre-commit hook aborted, run id '{run['run_id']}': 1 error occurred:\n"
        "\t* hook run id '0000_0000' failed on action 'gate' hook 'check': "
    )
    assert run["status"] == "failed"
    receiver.statuses.clear()
    made = commit(world)
    assert made.status_code == 201, made.text
    before, after = (body for _, body, _ in receiver.bodies[1:])
    assert (before["event_type"], after["event_type"]) == ("pre-commit", "post-commit")
    told = {
        "action_name": "gate", "hook_id": "check", "repository_id": REPOSITORY,
        "branch_id": "main", "commit_id": made.json["id"], "commit_message": "why",
        "committer": made.json["committer"], "commit_metadata": {"k": "v"},
    }  # fmt: skip
    assert {name: before[name] for name in told} == told
    assert {name: after[name] for name in told} == told
    assert (before["source_ref"], after["source_ref"]) == ("main", made.json["id"])


def test_a_file_that_cannot_be_used_answers_412_and_names_it(world: Server) -> None:
    world.put("_lakefs_actions/gate.yaml", b"name: gate\non: {}\nhooks: []\n")
    refused = commit(world)
    assert refused.status_code == 412
    assert "action file _lakefs_actions/gate.yaml: " in refused.json["message"]


def test_runs_can_be_asked_for(world: Server, receiver: Receiver) -> None:
    put_action(world, f"{receiver.url}/gate", "pre-commit")
    made = commit(world).json
    answer = world.call("GET", RUNS, params={"branch": "main"})
    (run,) = answer.json["results"]
    assert run.keys() == {
        "run_id", "branch", "start_time", "end_time", "event_type", "status", "commit_id",
    }  # fmt: skip
    assert (run["status"], run["commit_id"], run["branch"]) == ("completed", made["id"], "main")
    one = f"{RUNS}/{run['run_id']}"
    assert world.call("GET", one).json == run
    (hook,) = world.call("GET", f"{one}/hooks").json["results"]
    assert (hook["hook_run_id"], hook["status"]) == ("0000_0000", "completed")
    output = world.call("GET", f"{one}/hooks/0000_0000/output")
    assert output.headers["Content-Type"] == "application/octet-stream"
    assert output.headers["Content-Disposition"].startswith("attachment")
    both = {"branch": "main", "commit": made["id"]}
    assert world.call("GET", RUNS, params=both).status_code == 400
    assert world.call("GET", f"{RUNS}/none").status_code == 404
    assert world.call("GET", f"{one}/hooks/0001_0000/output").status_code == 404
    by_commit = world.call("GET", RUNS, params={"commit": made["id"]}).json
    assert by_commit["results"] == [run]


def test_hooks_are_tried_by_hand(world: Server, receiver: Receiver) -> None:
    put_action(world, f"{receiver.url}/gate", "pre-merge")
    commit(world)
    receiver.statuses["/gate"] = 404
    trial = world.call("POST", RUNS, json={"ref": "main", "event": "pre-merge"})
    assert trial.status_code == 202, trial.text
    (hook,) = trial.json["hooks"]
    assert hook == {"hook_run_id": "0000_0000", "action": "gate", "hook_id": "check"}
    assert world.call("GET", f"{RUNS}/{trial.json['run_id']}").json["status"] == "failed"
    none = world.call("POST", RUNS, json={"ref": "main", "event": "pre-commit"})
    assert none.json == {"run_id": "", "hooks": []}
    unknown = world.call("POST", RUNS, json={"ref": "main", "event": "pre-breakfast"})
    assert unknown.status_code == 400


def test_private_addresses_are_refused_unless_allowed(receiver: Receiver) -> None:
    receiver.bodies.clear()
    with server() as world:
        put_action(world, f"{receiver.url}/gate", "pre-commit")
        assert commit(world).status_code == 412
    assert not receiver.bodies


def test_no_hook_runs_where_they_are_turned_off(receiver: Receiver) -> None:
    with server(hooks__enabled=False) as world:
        world.put("_lakefs_actions/gate.yaml", b"not even YAML: [")
        assert commit(world).status_code == 201


# Calls of scripts


def put_script(world: Server, script: str) -> None:
    lines = "".join(f"        {line}\n" for line in script.splitlines())
    text = (
        "name: gate\non: {pre-commit: }\nhooks:\n  - id: check\n    type: lua\n"
        f"    properties:\n      script: |\n{lines}"
    )
    world.put("_lakefs_actions/gate.yaml", text.encode())


@pytest.mark.slow
def test_hooks_that_call_themselves_come_to_an_end(world: Server) -> None:
    text = (
        "name: gate\non: {pre-create-tag: }\nhooks:\n  - id: check\n    type: lua\n"
        "    properties:\n      script: |\n"
        """        local name = action.tag_id .. "x"\n"""
        """        print(require("lakefs").create_tag(action.repository_id, "main", name))\n"""
    )
    world.put("_lakefs_actions/gate.yaml", text.encode())
    assert commit(world).status_code == 201
    tags = f"/repositories/{REPOSITORY}/tags"
    made = world.call("POST", tags, json={"id": "v", "ref": "main"})
    assert made.status_code == 201
    assert [tag["id"] for tag in world.call("GET", tags).json["results"]] == [
        "v" + number * "x" for number in range(DEPTH_MAX + 1)
    ]


@pytest.mark.slow
def test_a_script_calls_the_server_as_its_user(world: Server) -> None:
    world.put("data/a b", b"hello")
    put_script(
        world,
        """
local lakefs = require("lakefs")
local code, body = lakefs.get_object(action.repository_id, action.commit_id, "data/a b")
print(code, body)
local code, stats = lakefs.stat_object(action.repository_id, action.commit_id, "data/a b")
print(code, stats)
local code, found = lakefs.list_objects(action.repository_id, action.commit_id, "", "data/")
print(code, found.results[1].path)
local code, changes = lakefs.diff_branch(action.repository_id, action.branch_id)
print(code)
local code, gone = lakefs.stat_object(action.repository_id, action.commit_id, "nothing")
print(code)
local code, tag = lakefs.create_tag(action.repository_id, "main", "by-script")
print(code, tag.id)
print(username)
""",
    )
    made = commit(world)
    assert made.status_code == 201, made.text
    (run,) = world.call("GET", RUNS, params={"commit": made.json["id"]}).json["results"]
    output = world.call("GET", f"{RUNS}/{run['run_id']}/hooks/0000_0000/output").text
    lines = output.splitlines()
    assert lines[0].split() == ["200", "hello"]
    assert lines[1].startswith("200")
    assert lines[2].split("\t") == ["200", "data/a b"]
    assert [line.split()[0] for line in lines[3:6]] == ["200", "404", "201"]
    assert lines[6] == "admin"


@pytest.mark.slow
def test_a_script_may_do_what_its_user_may_and_no_more(world: Server) -> None:
    users, auth = "/auth/users", world.services.auth
    world.call("POST", users, json={"id": "bea"})
    policy = {
        "id": "commits-only",
        "statement": [
            {"effect": "allow", "action": ["fs:CreateCommit"], "resource": "*"},
        ],
    }
    world.call("POST", "/auth/policies", json=policy)
    world.call("PUT", f"{users}/bea/policies/commits-only")
    key = auth.credentials.create("bea")
    pair = KeyPair(access_key_id=key.access_key_id, secret_access_key=key.secret_access_key)
    put_script(
        world,
        """
local lakefs = require("lakefs")
local code, body = lakefs.create_tag(action.repository_id, "main", "not-mine")
error("tag: " .. tostring(code))
""",
    )
    refused = commit(world, pair)
    assert refused.status_code == 412
    assert "tag: 401" in refused.json["message"]
    assert world.call("GET", f"/repositories/{REPOSITORY}/tags").json["results"] == []


@pytest.mark.slow
def test_a_script_may_do_things_where_its_user_may(world: Server) -> None:
    """A condition on addresses counts for calls of hooks as for the request they run for."""
    users, auth = "/auth/users", world.services.auth
    world.call("POST", users, json={"id": "carl"})
    here = {"IpAddress": {"SourceIp": ["198.51.100.7/32"]}}
    local = {"IpAddress": {"SourceIp": ["127.0.0.1/32"]}}
    policy = {
        "id": "by-address",
        "statement": [
            {"effect": "allow", "action": ["fs:CreateCommit"], "resource": "*"},
            {"effect": "allow", "action": ["fs:ListObjects"], "resource": "*", "condition": here},
            {"effect": "allow", "action": ["fs:CreateTag"], "resource": "*", "condition": local},
        ],
    }
    assert world.call("POST", "/auth/policies", json=policy).status_code == 201
    world.call("PUT", f"{users}/carl/policies/by-address")
    key = auth.credentials.create("carl")
    pair = KeyPair(access_key_id=key.access_key_id, secret_access_key=key.secret_access_key)
    put_script(
        world,
        """
local lakefs = require("lakefs")
local listed = lakefs.list_objects(action.repository_id, "main")
local tagged = lakefs.create_tag(action.repository_id, "main", "not-from-here")
error("list: " .. tostring(listed) .. ", tag: " .. tostring(tagged))
""",
    )
    path = f"/repositories/{REPOSITORY}/branches/main/commits"
    refused = world.call(
        "POST", path, json={"message": "why"}, pair=pair, remote_addr="198.51.100.7"
    )
    assert "list: 200, tag: 401" in refused.json["message"]


def test_a_request_that_waits_for_a_hook_leaves_its_slot_to_others(receiver: Receiver) -> None:
    receiver.bodies.clear()
    receiver.statuses.clear()
    limits = {"limits__work_slots": 1, "limits__queue_seconds": 0.0}
    with server(hooks__allow_private_networks=True, **limits) as world:
        put_action(world, f"{receiver.url}/gate", "pre-commit")
        receiver.gate.clear()
        answers: list[Result] = []
        waiting = threading.Thread(target=lambda: answers.append(commit(world)))
        waiting.start()
        try:
            eventually(lambda: receiver.bodies)
            others = world.call("GET", f"/repositories/{REPOSITORY}/branches")
            assert others.status_code == 200, others.text
        finally:
            receiver.gate.set()
            waiting.join()
        assert answers[0].status_code == 201, answers[0].text


def test_a_run_that_goes_on_is_listed_for_those_who_ask(world: Server, receiver: Receiver) -> None:
    put_action(world, f"{receiver.url}/gate", "pre-commit")
    receiver.gate.clear()
    waiting = threading.Thread(target=lambda: commit(world))
    waiting.start()
    try:
        eventually(lambda: receiver.bodies)
        assert world.call("GET", RUNS).json["results"] == []
        running = {"running": "true"}
        (run,) = world.call("GET", RUNS, params=running).json["results"]
        assert (run["status"], "end_time" in run) == ("running", False)
        one = f"{RUNS}/{run['run_id']}"
        assert world.call("GET", one).status_code == 404
        assert world.call("GET", one, params=running).json == run
        assert world.call("GET", f"{one}/hooks").status_code == 404
        (hook,) = world.call("GET", f"{one}/hooks", params=running).json["results"]
        assert (hook["status"], "end_time" in hook) == ("running", False)
        assert world.call("GET", f"{one}/hooks/{hook['hook_run_id']}/output").status_code == 200
    finally:
        receiver.gate.set()
        waiting.join()
    assert world.call("GET", one).json["status"] == "completed"


def test_the_background_process_removes_runs_that_were_kept_for_long(
    world: Server, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_action(world, f"{receiver.url}/gate", "pre-commit")
    commit(world)
    job = jobs_of(world.services)["runs"]
    assert job() == 0
    runtime = world.services.runtime
    later = runtime.now() + 31 * 24 * 3600
    monkeypatch.setattr(runtime, "now", lambda: later)
    assert job() == 1
    assert world.call("GET", RUNS).json["results"] == []


BRANCHES = f"/repositories/{REPOSITORY}/branches"
HOOKS = f"/repositories/{REPOSITORY}/settings/hooks"


def owner_of_data(world: Server) -> KeyPair:
    """The keys of a user who may do everything with repositories, and manage none of them."""
    world.services.auth.users.create("owner")
    world.services.auth.user_policies.add("owner", "FSFullAccess")
    made = world.services.auth.credentials.create("owner")
    return KeyPair(access_key_id=made.access_key_id, secret_access_key=made.secret_access_key)


def test_all_hooks_of_a_process_share_one_pool(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the bound on their processes would hold for each commit by itself."""
    pools: list[object] = []

    def run_and_note(*arguments: Any, pool: ProcessPool, **options: Any) -> None:
        pools.append(pool)
        kinds.run_hook(*arguments, pool=pool, **options)

    monkeypatch.setattr("lakebed.lake.hooks.actions.run_any_hook", run_and_note)
    with server(hooks__allow_private_networks=True) as world:
        put_action(world, f"{receiver.url}/gate", "pre-commit")
        assert commit(world).status_code == 201
        world.put("more")
        assert commit(world).status_code == 201
    first, second = pools
    assert first is second


def test_a_gate_judges_its_own_deletion_and_only_administrators_pass_it(
    world: Server, receiver: Receiver
) -> None:
    put_action(world, f"{receiver.url}/gate", "pre-commit", "pre-merge")
    assert commit(world).status_code == 201
    pair = owner_of_data(world)
    receiver.statuses["/gate"] = 500
    file = {"path": "_lakefs_actions/gate.yaml"}
    world.call("POST", BRANCHES, json={"name": "dev", "source": "main"}, pair=pair)
    deleted = world.call("DELETE", f"{BRANCHES}/main/objects", params=file, pair=pair)
    assert deleted.status_code == 204
    assert commit(world, pair).status_code == 412
    # Nor does the owner of the data skip hooks, or take the rule away.
    body = {"message": "why"}
    skip = {"skip_hooks": "true"}
    commits = f"{BRANCHES}/main/commits"
    assert world.call("POST", commits, params=skip, json=body, pair=pair).status_code == 401
    assert world.call("PUT", HOOKS, json={"strict": False}, pair=pair).status_code == 401
    assert world.call("GET", HOOKS).json == {"strict": True}
    asked = len(receiver.bodies)
    made = world.call("POST", commits, params=skip, json=body)
    assert made.status_code == 201
    assert made.json["metadata"] == {".lakebed.hooks_skipped_by": "admin"}
    assert len(receiver.bodies) == asked
    (run,) = world.call("GET", RUNS, params={"commit": made.json["id"]}).json["results"]
    assert (run["status"], run["skipped_by"]) == ("completed", "admin")


def test_hooks_that_are_not_strict_are_those_of_the_commit(
    world: Server, receiver: Receiver
) -> None:
    put_action(world, f"{receiver.url}/gate", "pre-commit")
    assert commit(world).status_code == 201
    receiver.statuses["/gate"] = 500
    assert world.call("PUT", HOOKS, json={"strict": False}).status_code == 204
    assert world.call("GET", HOOKS).json == {"strict": False}
    file = {"path": "_lakefs_actions/gate.yaml"}
    world.call("DELETE", f"{BRANCHES}/main/objects", params=file)
    assert commit(world).status_code == 201


def test_a_refused_commit_is_marked(world: Server, receiver: Receiver) -> None:
    put_action(world, f"{receiver.url}/gate", "pre-commit")
    receiver.statuses["/gate"] = 500
    assert commit(world).status_code == 412
    run = world.call("GET", RUNS).json["results"][0]
    by = f"pre-commit hook 'check' of action 'gate', run {run['run_id']}"
    base = f"/repositories/{REPOSITORY}"
    for _ in range(2):  # the second answer may be a repeated one
        assert world.call("GET", f"{base}/commits/{run['commit_id']}").json["refused"] == by
    first, second = world.call("GET", f"{base}/refs/{run['commit_id']}/commits").json["results"]
    assert first["refused"] == by
    assert "refused" not in second
    assert "refused" not in world.call("GET", f"{base}/commits/main").json
    for path, body in (
        ("branches", {"name": "sneak", "source": run["commit_id"]}),
        ("tags", {"id": "sneak", "ref": run["commit_id"]}),
        (f"refs/{run['commit_id']}/merge/main", {}),
    ):
        answer = world.call("POST", f"{base}/{path}", json=body)
        assert answer.status_code == 412
        assert answer.json["kind"] == "commit_refused"
        assert f"was refused by {by}: no branch or tag can point to it" in answer.json["message"]
