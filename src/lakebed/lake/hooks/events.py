"""Events that trigger hooks, and their payload."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum


class EventType(StrEnum):
    """Events, spelled as in action files and in the API."""

    PREPARE_COMMIT = "prepare-commit"
    PRE_COMMIT = "pre-commit"
    POST_COMMIT = "post-commit"
    PRE_MERGE = "pre-merge"
    POST_MERGE = "post-merge"
    PRE_CREATE_TAG = "pre-create-tag"
    POST_CREATE_TAG = "post-create-tag"
    PRE_DELETE_TAG = "pre-delete-tag"
    POST_DELETE_TAG = "post-delete-tag"
    PRE_CREATE_BRANCH = "pre-create-branch"
    POST_CREATE_BRANCH = "post-create-branch"
    PRE_DELETE_BRANCH = "pre-delete-branch"
    POST_DELETE_BRANCH = "post-delete-branch"
    PRE_REVERT = "pre-revert"
    POST_REVERT = "post-revert"
    PRE_CHERRY_PICK = "pre-cherry-pick"
    POST_CHERRY_PICK = "post-cherry-pick"

    @property
    def is_post(self) -> bool:
        """Whether the event follows the operation, so that hooks cannot refuse it."""
        return self.value.startswith("post-")

    @property
    def is_creation(self) -> bool:
        return "-create-" in self.value

    @property
    def is_deletion(self) -> bool:
        return "-delete-" in self.value

    @property
    def is_about_tag(self) -> bool:
        """Whether the event concerns a tag, so that no branch can match."""
        return self.value.endswith("-tag")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitDetails:
    """The commit as passed to Lua scripts in ``action.commit``."""

    message: str = ""
    meta_range_id: str = ""
    creation_date: datetime | None = None
    version: int = 0
    metadata: Mapping[str, str] = field(default_factory=dict)
    parents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HookEvent:
    """One event, shared by all hooks of its run. Texts that do not apply are empty."""

    event_type: EventType
    run_id: str
    """The run started by the event; unchanged if the event is delivered again."""
    event_time: datetime
    """Timezone-aware."""
    repository_id: str
    repository_uid: str
    """Unique id of the repository; a later repository of the same name has another."""
    storage_namespace: str
    source_ref: str
    """The branch or commit of the event; of a merge, its source."""
    username: str
    """The user who triggered the event."""
    script_ref: str = ""
    """Ref for reading scripts named by action files; defaults to `source_ref`."""
    branch_id: str = ""
    tag_id: str = ""
    commit_id: str = ""
    commit_message: str = ""
    committer: str = ""
    commit_metadata: Mapping[str, str] = field(default_factory=dict)
    merge_source: str = ""
    """The source of a merge, as given by the user."""
    pre_run_id: str = ""
    """For a post event, the run of the matching pre event, if any."""
    commit: CommitDetails = CommitDetails()

    def payload(self, *, action_name: str, hook_id: str) -> dict[str, object]:
        """Return the payload sent to a hook: webhook body, and ``lakeFS_event`` for Airflow."""
        always: dict[str, object] = {
            "event_type": self.event_type.value,
            "event_time": rfc3339(self.event_time),
            "action_name": action_name,
            "hook_id": hook_id,
            "repository_id": self.repository_id,
        }
        if_given = {
            "branch_id": self.branch_id,
            "source_ref": self.source_ref,
            "tag_id": self.tag_id,
            "commit_id": self.commit_id,
            "commit_message": self.commit_message,
            "committer": self.committer,
            "commit_metadata": dict(self.commit_metadata),
            "merge_source": self.merge_source,
        }
        return always | {name: value for name, value in if_given.items() if value}


def rfc3339(moment: datetime) -> str:
    """Format a time for hooks: UTC, in whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
