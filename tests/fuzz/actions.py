"""Action files: their YAML, and the small languages inside."""

from typing import Final

from hypothesis import strategies as st

from lakebed.lake.hooks.conditions import evaluate
from lakebed.lake.hooks.errors import InvalidAction
from lakebed.lake.hooks.events import EventType
from lakebed.lake.hooks.files import check_names, parse_action, select
from tests.fuzz.inputs import texts
from tests.fuzz.target import Targets, attempt

targets: Final = Targets()

WORDS: Final = [
    b"name: a1\n", b"on:\n", b"on: {pre-commit: }\n", b"  pre-commit:\n", b"  post-create-tag:\n",
    b"    branches: [main, 'r-*']\n", b"hooks:\n", b"  - id: hook\n", b"    type: webhook\n",
    b"    type: lua\n", b"    type: airflow\n", b"    type: command\n", b"    if: failure()\n",
    b"    properties:\n", b"      url: http://h/\n", b"      timeout: 1m\n", b"      script: x\n",
    b"      args: {a: [1, b]}\n", b"      headers: {a: b}\n", b"&a ", b"*a", b"<<: *a\n", b"!!str ",
    b"!!python/name:os.system ", b"|\n", b">-\n", b"'", b'"', b"[", b"]", b"{", b"}", b": ", b"- ",
    b"---\n", b"...\n", b"%YAML 1.1\n", b"#", b"\t", b"\0", b"\xff", b"\xef", b"? ", b"1e99",
    b"0o9", b"0x", b"." * 20, b"[" * 50, b"\\[", b"\n",
]  # fmt: skip
SOUND: Final = (
    b"name: a1\non:\n  pre-commit:\n    branches: [main, 'r-[a-c]*']\n  post-merge:\nhooks:\n"
    b"  - id: hook\n    type: webhook\n    if: '!failure() && true'\n    properties:\n"
    b"      url: http://h/\n      timeout: 1m30s\n      query_params: {a: [b, c]}\n"
)


@targets.add(texts(WORDS, st.just(SOUND)))
def action_files(content: bytes) -> None:
    """A file that is read has an event, can be matched, and its conditions have answers."""
    action = attempt(InvalidAction, parse_action, "_lakefs_actions/a", content)
    if action is None:
        return
    assert action.events
    check_names([action])
    for event in EventType:
        assert select([action], event, "main") in ([], [action])
        if action.events.get(event) == ():
            assert select([action], event, "any/branch") == [action]
    for hook in action.hooks:
        assert hook.timeout_seconds > 0
        assert evaluate(hook.condition, has_failed=True) in {True, False}
