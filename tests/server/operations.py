"""A well-formed request to every operation of the API, for tests that walk through all of them."""

from typing import Any

import msgspec

from lakebed.server.api.routes import Route
from tests.server.kit import BRANCH, REPOSITORY

PATH = "folder/object"

PARTS = {
    "repository": REPOSITORY,
    "branch": BRANCH,
    "ref": BRANCH,
    "right_ref": BRANCH,
    "destination_branch": BRANCH,
    "tag": "v1",
    "user": "someone",
    "group": "Viewers",
    "policy": "FSReadAll",
    "access_key_id": "AKIAJSOMEONE",
    "kind": "range",
    "upload": "unknown",
    "part": "1",
    "run_id": "unknown",
    "hook_run_id": "unknown",
    "purge": "unknown",
}
QUERIES = {
    "path": PATH,
    "dest_path": "folder/copy",
    "right_ref": BRANCH,
    "ref": BRANCH,
    "task_id": "unknown",
    "run_id": "unknown",
    "id": "unknown",
    "bare": "false",
    "holder": "a0",
    "text": "object",
}
STATEMENT = {"effect": "allow", "resource": "*", "action": ["fs:ReadObject"]}
BODIES: dict[str, Any] = {
    "createRepository": {"name": "another", "storage_namespace": "mem://lakes/another"},
    "setRepositoryMetadata": {"metadata": {"owner": "me"}},
    "deleteRepositoryMetadata": {"keys": ["owner"]},
    "setBranchProtectionRules": [{"pattern": "release-*"}],
    "internalCreateBranchProtectionRule": {"pattern": "release-*"},
    "internalDeleteBranchProtectionRule": {"pattern": "release-*"},
    "restoreRefs": dict.fromkeys(
        ("commits_meta_range_id", "tags_meta_range_id", "branches_meta_range_id"), "none"
    ),
    "restoreSubmit": dict.fromkeys(
        ("commits_meta_range_id", "tags_meta_range_id", "branches_meta_range_id"), "none"
    ),
    "purgeObjects": {"path": PATH},
    "setHooksSettings": {"strict": False},
    "createBranch": {"name": "dev", "source": BRANCH},
    "resetBranch": {"type": "reset"},
    "revertBranch": {"ref": BRANCH, "parent_number": 0},
    "cherryPick": {"ref": BRANCH},
    "createPullRequest": {
        "title": "a change",
        "source_branch": BRANCH,
        "destination_branch": "unknown",
    },
    "updatePullRequest": {"title": "another"},
    "createTag": {"id": "v2", "ref": BRANCH},
    "commit": {"message": "a commit"},
    "mergeIntoBranch": {},
    "deleteObjects": {"paths": [PATH, "folder/other"]},
    "copyObject": {"src_path": PATH},
    "updateObjectUserMetadata": {"set": {"colour": "blue"}},
    "linkPhysicalAddress": {
        "staging": {"physical_address": "mem://lakes/lake/x"},
        "checksum": "0",
        "size_bytes": 1,
    },
    "stageObject": {
        "physical_address": "mem://elsewhere/x",
        "checksum": "0",
        "size_bytes": 1,
    },
    "runActions": {"ref": BRANCH, "event": "pre-commit"},
    "importStart": {
        "paths": [
            {"type": "common_prefix", "path": "mem://elsewhere/x", "destination": "imported"},
            {"type": "object", "path": "mem://elsewhere/y", "destination": "one"},
        ],
        "commit": {"message": "an import"},
    },
    "importReport": {
        "paths": [{"type": "common_prefix", "path": "mem://elsewhere/x", "destination": "in"}],
    },
    "uploadPart": {"physical_address": "mem://lakes/lake/x"},
    "uploadPartCopy": {
        "physical_address": "mem://lakes/lake/x",
        "copy_source": {"repository": REPOSITORY, "ref": BRANCH, "path": PATH},
    },
    "completePresignMultipartUpload": {
        "physical_address": "mem://lakes/lake/x",
        "parts": [{"part_number": 1, "etag": "0"}],
    },
    "abortPresignMultipartUpload": {"physical_address": "mem://lakes/lake/x"},
    "prepareGarbageCollectionUncommitted": {},
    "setGCRules": {"default_retention_days": 30, "branches": []},
    "internalSetGarbageCollectionRules": {"default_retention_days": 30, "branches": []},
    "takeGarbageCollectionLease": {"holder": "a0"},
    "createUser": {"id": "another"},
    "createGroup": {"id": "another"},
    "setGroupACL": {"permission": "Write"},
    "createPolicy": {"id": "another", "statement": [STATEMENT]},
    "updatePolicy": {"id": "FSReadAll", "statement": [STATEMENT]},
}


def filled(route: Route, **others: str) -> str:
    """The path of an operation on things that are there, where they can be."""
    parts = dict.fromkeys(route.parameters, "unknown") | PARTS | others
    return route.path.replace(":path}", "}").format(**parts)


def request(route: Route) -> tuple[str, str, dict[str, Any]]:
    """A request to an operation that is well formed."""
    kwargs: dict[str, Any] = {}
    if route.query is not None:
        required = [each for each in msgspec.structs.fields(route.query) if each.required]
        kwargs["params"] = {each.encode_name: QUERIES[each.encode_name] for each in required}
    if isinstance(route.needs, tuple):
        kwargs.setdefault("params", {}).update(
            {need.when: "true" for need in route.needs if need.when}
        )
    if route.body is not None:
        kwargs["json"] = BODIES[route.operation]
    if route.uploads:
        kwargs["body"] = b"data"
    return route.method, filled(route), kwargs
