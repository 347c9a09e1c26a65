import pytest

from lakebed.lake.hooks.errors import InvalidAction
from lakebed.lake.hooks.events import EventType
from lakebed.lake.hooks.files import PRE_SECONDS_MAX, ActionFile, check_names, parse_action, select

MINIMAL = "name: checks\non: {pre-commit: }\nhooks: []\n"


def parse(text: str) -> ActionFile:
    return parse_action("_lakefs_actions/checks.yaml", text.encode())


def with_hook(lines: str, *, on: str = "{pre-commit: }") -> str:
    body = "".join(f"    {line}\n" for line in lines.splitlines())
    return f"name: checks\non: {on}\nhooks:\n  -{body[3:]}"


def test_a_file_with_everything() -> None:
    action = parse(
        """
name: Good files.only
description: Checks what is committed
on:
  pre-commit:
    branches: [main, 'release-*', 2024]
  post-merge:
  pre-create-tag: {}
hooks:
  - id: ask_them
    type: webhook
    description: a gate
    if: success() || failure()
    properties:
      url: http://gate.example.com:8080/check?a=b
      timeout: 1m30s
      query_params: {one: "1", many: [a, b]}
      headers: {Authorization: "Bearer {{ ENV.LAKEFSACTION_TOKEN }}"}
  - id: dag
    type: airflow
    properties:
      url: https://airflow.example.com
      dag_id: etl
      username: admin
      password: '{{ ENV.LAKEFSACTION_AIRFLOW }}'
      dag_conf: {deep: {number: 1, flag: true, nothing: null}}
      wait_for_dag: true
  - id: script
    type: lua
    properties:
      script: |
        print("on")
      args: {yes: on, count: 3}
  - id: mine
    type: command
    properties: {command: scan, args: [--fast]}
"""
    )
    assert action.name == "Good files.only"
    assert action.events == {
        EventType.PRE_COMMIT: ("main", "release-*", "2024"),
        EventType.POST_MERGE: (),
        EventType.PRE_CREATE_TAG: (),
    }
    ask, dag, script, mine = action.hooks
    assert (ask.action_name, ask.id, ask.type) == ("Good files.only", "ask_them", "webhook")
    assert ask.timeout_seconds == 90
    assert ask.properties["query_params"] == {"one": ["1"], "many": ["a", "b"]}
    assert dag.properties["dag_conf"] == {"deep": {"number": 1, "flag": True, "nothing": None}}
    assert dag.timeout_seconds == 60
    assert script.properties["args"] == {"yes": "on", "count": 3}  # no booleans of YAML 1.1
    assert mine.properties == {"command": "scan", "args": ["--fast"]}


@pytest.mark.parametrize("event", list(EventType))
def test_every_event_is_known(event: EventType) -> None:
    assert parse(f"name: a1\non:\n  {event}:\n").events == {event: ()}


def test_there_are_seventeen_events() -> None:
    assert len(EventType) == 17


WEBHOOK = "id: hook\ntype: webhook\nproperties: {url: 'http://h/', "


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "must be a mapping"),
        ("- a", "must be a mapping"),
        ("name: [", "invalid YAML"),
        ("name: a1\nname: b1\non: {pre-commit: }", "line 2: duplicate key 'name'"),
        ("\xff", "the file is not UTF-8"),
        ("name: a\0b", "invalid YAML"),
        ("---\na: b\n---\nc: d\n", "more than one document"),
        ("on: {pre-commit: }", "name is missing"),
        ("name: ''\non: {pre-commit: }", "name is missing"),
        ("name: x\non: {pre-commit: }", "name is 'x'"),
        ("name: 'a\n\n  b'\non: {pre-commit: }", "name is 'a\\nb'"),
        ("name: [a]\non: {pre-commit: }", "name must be a string"),
        ("name: -dash\non: {pre-commit: }", "name is '-dash'"),
        ("name: a1", "on is missing"),
        ("name: a1\non:", "on is missing"),
        ("name: a1\non: {}", "at least one event"),
        ("name: a1\non: [pre-commit]", "at least one event"),
        ("name: a1\non: {pre-comit: }", "unknown event 'pre-comit'"),
        ("name: a1\nOn: {pre-commit: }", "unknown field 'On'"),
        ("name: a1\non: {pre-commit: {branch: [a]}}", "unknown field 'branch'"),
        ("name: a1\non: {pre-commit: {branches: main}}", "must be a list of patterns"),
        ("name: a1\non: {pre-commit: {branches: [[a]]}}", "must contain only strings"),
        ("name: a1\non: {pre-commit: {branches: ['[']}}", "'[' is not a valid pattern"),
        ("name: a1\non: {post-delete-tag: {branches: []}}", "does not apply to tags"),
        ("name: a1\non: {pre-commit: }\nhooks: {id: a}", "hooks must be a list"),
        ("name: a1\non: {pre-commit: }\nhooks: [a]", "hooks[0] must be a mapping"),
        (with_hook("type: lua"), "hooks[0]: id is ''"),
        (with_hook("id: x\ntype: lua"), "hooks[0]: id is 'x'"),
        (with_hook("id: 1st\ntype: lua"), "hooks[0]: id is '1st'"),
        (with_hook("id: hook"), "type is ''"),
        (with_hook("id: hook\ntype: python"), "type is 'python': use one of webhook"),
        (with_hook("id: hook\ntype: lua\nwhen: x"), "unknown field 'when'"),
        (with_hook("id: hook\ntype: webhook\nproperties: a"), "properties must be a mapping"),
        (with_hook("id: hook\ntype: webhook"), "the property url is missing"),
        (with_hook(WEBHOOK + "urls: a}"), "unknown property 'urls'"),
        (with_hook(WEBHOOK + "timeout: 30}"), "must be a string like 30s or 5m, not 30"),
        (with_hook(WEBHOOK + "timeout: 30 s}"), "'30 s' is not a duration"),
        (with_hook(WEBHOOK + "timeout: -1s}"), "must be positive"),
        (with_hook(WEBHOOK + "timeout: 10m}"), "more than 540: lower"),
        (with_hook(WEBHOOK + "headers: {Host: a}}"), "cannot send the header 'Host'"),
        (with_hook(WEBHOOK + 'headers: {"a\\nb": c}}'), "cannot send the header"),
        (with_hook(WEBHOOK + "headers: {a: 1}}"), "put numbers in quotes"),
        (with_hook(WEBHOOK + "query_params: {a: 1}}"), "put numbers in quotes"),
        (with_hook(WEBHOOK + "query_params: [a]}"), "must be a mapping"),
        (
            with_hook("id: hook\ntype: webhook\nproperties: {url: 'ftp://h/'}"),
            "must be a URL like https://host/path",
        ),
        (with_hook("id: hook\ntype: webhook\nproperties: {url: ''}"), "url is empty"),
        (with_hook("id: hook\ntype: webhook\nproperties: {url: 7}"), "url must be a string"),
        (
            with_hook("id: hook\ntype: airflow\nproperties: {url: 'http://h', dag_id: d}"),
            "the property username is missing",
        ),
        (
            with_hook("id: hook\ntype: airflow\nproperties: {url: 'http://h', token: d}"),
            "token needs api_version: v2",
        ),
        (
            with_hook(
                "id: hook\ntype: airflow\nproperties:"
                " {url: 'http://h', dag_id: d, username: a, password: b, wait_for_dag: yes}"
            ),
            "wait_for_dag must be true or false, not 'yes'",
        ),
        (with_hook("id: hook\ntype: lua"), "give one of script and script_path"),
        (
            with_hook("id: hook\ntype: lua\nproperties: {script: a, script_path: b}"),
            "give one of script and script_path",
        ),
        (
            with_hook("id: hook\ntype: lua\nproperties: {script: a, args: [b]}"),
            "args must be a mapping",
        ),
        (with_hook("id: hook\ntype: command"), "the property command is missing"),
        (
            with_hook("id: hook\ntype: lua\nif: success\nproperties: {script: a}"),
            "'success' is not a valid condition: missing '('",
        ),
        ("name: !!python/object/apply:os.system x", "os.system is not supported"),
        ("name: !!int 1\non: {pre-commit: }", "is not supported"),
        ("name: *a\non: {pre-commit: }", "undefined alias *a"),
        ("[" * 5000, "nested more than 40 deep"),
        ("a: " + "{b: " * 100, "nested more than 40 deep"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(text: str, reason: str) -> None:
    with pytest.raises(InvalidAction) as caught:
        parse_action("_lakefs_actions/bad.yaml", text.encode("latin-1"))
    assert str(caught.value).startswith("action file _lakefs_actions/bad.yaml: ")
    assert reason in caught.value.reason


def test_two_hooks_of_one_id() -> None:
    hook = "  - {id: hook, type: lua, properties: {script: a}}\n"
    with pytest.raises(InvalidAction, match=r"hooks\[1\]: duplicate id 'hook'"):
        parse(f"name: a1\non: {{pre-commit: }}\nhooks:\n{hook}{hook}")


def test_hooks_that_nobody_waits_for_may_take_longer() -> None:
    text = with_hook(WEBHOOK + "timeout: 2h}", on="{post-commit: }")
    assert parse(text).hooks[0].timeout_seconds == 7200 > PRE_SECONDS_MAX
    with pytest.raises(InvalidAction, match="more than 540"):
        parse(text.replace("{post-commit: }", "{post-commit: , pre-merge: }"))


def test_aliases_are_read_but_cannot_grow_without_bound() -> None:
    shared = parse(
        "name: a1\non:\n  pre-commit: &b {branches: [main]}\n  pre-merge: *b\nhooks: []\n"
    )
    assert shared.events[EventType.PRE_MERGE] == ("main",)
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    with pytest.raises(InvalidAction, match="more than 20000 values"):
        parse("\n".join(lines))


def test_a_large_file_is_refused_unread() -> None:
    with pytest.raises(InvalidAction, match="the file has more than 524288 bytes"):
        parse("# " + "x" * (512 << 10) + "\n" + MINIMAL)


def test_two_actions_of_one_name() -> None:
    first = parse_action("_lakefs_actions/a", MINIMAL.encode())
    second = parse_action("_lakefs_actions/b", MINIMAL.encode())
    check_names([first])
    with pytest.raises(
        InvalidAction, match=r"_lakefs_actions/b: .*already used by _lakefs_actions/a"
    ):
        check_names([first, second])


def test_actions_are_selected_by_event_and_branch() -> None:
    def named(name: str, on: str) -> ActionFile:
        return parse(f"name: {name}\non: {on}")

    everywhere = named("everywhere", "{pre-commit: }")
    releases = named("releases", "{pre-commit: {branches: ['release-*', main]}, post-merge: }")
    tags = named("tags", "{pre-create-tag: }")

    def chosen(event: EventType, branch: str) -> list[str]:
        return [action.name for action in select([everywhere, releases, tags], event, branch)]

    assert chosen(EventType.PRE_COMMIT, "main") == ["everywhere", "releases"]
    assert chosen(EventType.PRE_COMMIT, "release-1/a") == ["everywhere"]
    assert chosen(EventType.POST_MERGE, "any") == ["releases"]
    assert chosen(EventType.PRE_CREATE_TAG, "") == ["tags"]
    assert chosen(EventType.PRE_DELETE_TAG, "") == []
