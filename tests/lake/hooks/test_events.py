from datetime import datetime, timedelta, timezone

from lakebed.lake.hooks.events import EventType, HookEvent


def test_a_payload_has_the_fields_that_apply() -> None:
    event = HookEvent(
        event_type=EventType.PRE_MERGE,
        run_id="run",
        event_time=datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=timezone(timedelta(hours=2))),
        repository_id="repo",
        repository_uid="uid",
        storage_namespace="s3://bucket",
        source_ref="c0ffee",
        username="jane",
        branch_id="main",
        commit_id="d00d",
        commit_message="m",
        committer="jane",
        commit_metadata={"a": "b"},
        merge_source="dev",
    )
    assert event.payload(action_name="checks", hook_id="hook") == {
        "event_type": "pre-merge",
        "event_time": "2026-01-02T01:04:05Z",
        "action_name": "checks",
        "hook_id": "hook",
        "repository_id": "repo",
        "branch_id": "main",
        "source_ref": "c0ffee",
        "commit_id": "d00d",
        "commit_message": "m",
        "committer": "jane",
        "commit_metadata": {"a": "b"},
        "merge_source": "dev",
    }


def test_each_event_is_before_or_after() -> None:
    before = [event for event in EventType if not event.is_post]
    assert [event.value for event in before if not event.startswith("pre-")] == ["prepare-commit"]
    assert len(before) == 9
