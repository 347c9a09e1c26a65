"""What the operations of the API can be called with, so that they find something to work on."""

import base64
import io
import uuid
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import httpx
import pyarrow.parquet as pq

from lakebed.testing.servers.lakebed import LakebedServer

STATEMENT: Final = {"effect": "allow", "resource": "*", "action": ["fs:Read*"]}


def authorization(server: LakebedServer) -> str:
    """The header by which the administrator signs in."""
    pair = f"{server.access_key_id}:{server.secret_access_key}"
    return "Basic " + base64.b64encode(pair.encode()).decode()


def api_of(server: LakebedServer) -> httpx.Client:
    """A client of the API, as the administrator."""
    return httpx.Client(
        base_url=f"{server.endpoint}/api/v1",
        headers={"Authorization": authorization(server)},
        timeout=30,
        trust_env=False,
    )


@dataclass(frozen=True, slots=True)
class Sample:
    """A repository with something of everything in it, and people."""

    server: LakebedServer
    api: httpx.Client
    repository: str = field(default_factory=lambda: f"repo-{uuid.uuid4().hex[:12]}")
    known: dict[str, Any] = field(default_factory=dict)
    """Things that are there, by the name of the parameter that asks for them."""

    @property
    def namespace(self) -> str:
        return f"{self.server.namespace}/{self.repository}"

    def post(self, path: str, body: Any = None, **query: Any) -> Any:
        """Make something in the repository."""
        at = f"/repositories/{self.repository}/{path}"
        return self.api.post(at, json=body, params=query).raise_for_status().json()

    def upload(self, branch: str, path: str) -> None:
        at = f"/repositories/{self.repository}/branches/{branch}/objects"
        self.api.post(at, params={"path": path}, content=b"content").raise_for_status()

    def create(self, *, bare: bool = False) -> None:
        body = {"name": self.repository, "storage_namespace": self.namespace}
        self.api.post("/repositories", params={"bare": bare}, json=body).raise_for_status()

    def branch(self, name: str) -> None:
        body = {"name": name, "source": "main"}
        at = f"/repositories/{self.repository}/branches"
        self.api.post(at, json=body).raise_for_status()


def make_sample(server: LakebedServer, api: httpx.Client, kinds: Collection[str]) -> Sample:
    """Make a new sample for operations on a repository, a user, a group or a policy."""
    sample = Sample(server, api)
    if "repository" in kinds:
        _add_repository(sample)
    if not {"user", "group", "policy"}.isdisjoint(kinds):
        _add_people(sample)
    return sample


def _add_repository(sample: Sample) -> None:
    sample.create()
    sample.upload("main", "folder/object")
    first = sample.post("branches/main/commits", {"message": "first"})
    sample.branch("dev")
    sample.upload("dev", "of-dev")
    picked = sample.post("branches/dev/commits", {"message": "picked"})
    sample.post("tags", {"id": "v1", "ref": "main"})
    sample.branch("dirty")
    sample.upload("dirty", "staged")
    sample.known.update(
        repository=sample.repository,
        branch="dirty",
        destination_branch="main",
        ref="dev",
        right_ref="main",
        tag="v1",
        commit_id=first["id"],
        picked=picked["id"],
        meta_range=first["meta_range_id"],
        kind="meta_range",
        object_id=first["meta_range_id"],
        range_id=_range_of(sample, first["meta_range_id"]),
        path="folder/object",
        dest_path="copied",
    )


def _add_people(sample: Sample) -> None:
    """Make a user, in a group, with a policy and an access key."""
    user, group, policy = (f"{kind}-{sample.repository}" for kind in ("user", "group", "policy"))
    for path, body in (
        ("users", {"id": user}),
        ("groups", {"id": group}),
        ("policies", {"id": policy, "statement": [STATEMENT]}),
    ):
        sample.api.post(f"/auth/{path}", json=body).raise_for_status()
    for path in (
        f"users/{user}/policies/{policy}",
        f"groups/{group}/policies/{policy}",
        f"groups/{group}/members/{user}",
    ):
        sample.api.put(f"/auth/{path}").raise_for_status()
    # A word for what the group may do, too.
    sample.api.post(f"/auth/groups/{group}/acl", json={"permission": "Read"}).raise_for_status()
    made = sample.api.post(f"/auth/users/{user}/credentials").raise_for_status().json()
    sample.known.update(user=user, group=group, policy=policy, access_key_id=made["access_key_id"])


def _range_of(sample: Sample, metarange: str) -> str:
    at = f"/repositories/{sample.repository}/metadata/object/meta_range/{metarange}"
    table = pq.read_table(io.BytesIO(sample.api.get(at).raise_for_status().content))
    return str(table.column("range_id")[0].as_py())


@dataclass(frozen=True, slots=True)
class Good:
    """What an operation succeeds with, beyond what is known."""

    path: dict[str, str] = field(default_factory=dict)
    query: dict[str, Any] = field(default_factory=dict)
    body: Any = None


def good(operation: str, sample: Sample) -> Good:
    """Return what makes an operation succeed; for some, something is made for it."""
    prepare = _PREPARED.get(operation)
    if prepare is not None:
        return prepare(sample)
    query = {
        "hardResetBranch": {"ref": "main"},
        "giveBackGarbageCollectionLease": {"holder": "a0"},
        "searchObjects": {"text": "a"},
    }.get(operation, {})
    branch = {"hardResetBranch": "dev", "revertBranch": "main", "cherryPick": "main"}
    path = {"branch": branch[operation]} if operation in branch else {}
    return Good(path=path, query=query, body=_bodies(sample).get(operation))


def _bodies(sample: Sample) -> dict[str, Any]:
    name = uuid.uuid4().hex[:12]
    rule = {"pattern": "release-*"}
    return {
        "setup": {"username": "another"},
        "setupCommPrefs": {},
        "purgeObjects": {"path": "never"},
        "postStatsEvents": {"events": []},
        "login": {
            "access_key_id": sample.server.access_key_id,
            "secret_access_key": sample.server.secret_access_key,
        },
        "createRepository": {
            "name": f"new-{name}",
            "storage_namespace": f"{sample.server.namespace}/new-{name}",
        },
        "setRepositoryMetadata": {"metadata": {"key": "value"}},
        "deleteRepositoryMetadata": {"keys": ["key"]},
        "setHooksSettings": {"strict": False},
        "setBranchProtectionRules": [rule],
        "internalCreateBranchProtectionRule": rule,
        "internalDeleteBranchProtectionRule": rule,
        "createBranch": {"name": name, "source": "main"},
        "createTag": {"id": name, "ref": "main"},
        "resetBranch": {"type": "reset"},
        "revertBranch": {"ref": "main", "parent_number": 0},
        "cherryPick": {"ref": sample.known.get("picked")},
        "commit": {"message": "a message"},
        "mergeIntoBranch": {"message": "a message"},
        "createPullRequest": {
            "title": "a change",
            "source_branch": "dev",
            "destination_branch": "main",
        },
        "deleteObjects": {"paths": ["staged", "none"]},
        "copyObject": {"src_path": "folder/object"},
        "runActions": {"ref": "main", "event": "pre-commit"},
        "updateObjectUserMetadata": {"set": {"key": "value"}},
        "setGCRules": {"default_retention_days": 30, "branches": []},
        "internalSetGarbageCollectionRules": {"default_retention_days": 30, "branches": []},
        "takeGarbageCollectionLease": {"holder": "a0"},
        "stageObject": {
            "physical_address": "local://elsewhere/object",
            "checksum": "00ff",
            "size_bytes": 7,
        },
        "createUser": {"id": name},
        "createGroup": {"id": name},
        "createPolicy": {"id": name, "statement": [STATEMENT]},
        "updatePolicy": {"id": sample.known.get("policy"), "statement": [STATEMENT]},
        "setGroupACL": {"permission": "Write"},
    }


def _link(sample: Sample) -> Good:
    at = f"/repositories/{sample.repository}/branches/dirty/staging/backing"
    given = sample.api.get(at, params={"path": "linked"}).raise_for_status().json()
    file = sample.server.folder / "objects" / given["physical_address"].removeprefix("local://")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"content")
    body = {"staging": given, "checksum": "00ff", "size_bytes": 7}
    return Good(query={"path": "linked"}, body=body)


def _unfinished(sample: Sample) -> Good:
    at = f"/repositories/{sample.repository}/branches/dirty/staging/backing"
    given = sample.api.get(at, params={"path": "never-linked"}).raise_for_status().json()
    return Good(path={"upload": given["physical_address"].rpartition("/")[2]})


def _in_parts(sample: Sample, *, sent: bool = False, **body: Any) -> Good:
    """An upload in presigned parts, one of which was sent."""
    at = f"/repositories/{sample.repository}/branches/dirty/staging/pmpu"
    begun = sample.api.post(at, params={"path": "in-parts", "parts": 1}).raise_for_status().json()
    body["physical_address"] = begun["physical_address"]
    if sent:
        answer = httpx.put(begun["presigned_urls"][0], content=b"content", trust_env=False)
        body["parts"] = [{"part_number": 1, "etag": answer.headers["ETag"]}]
    path = {"upload": begun["upload_id"], "part": "1"}
    return Good(path=path, query={"path": "in-parts"}, body=body)


def _copied_part(sample: Sample) -> Good:
    source = {"repository": sample.repository, "ref": "main", "path": "folder/object"}
    return _in_parts(sample, copy_source=source)


def _restorable(sample: Sample) -> Good:
    other = Sample(sample.server, sample.api)
    other.create()
    dump = sample.api.put(f"/repositories/{other.repository}/refs/dump").raise_for_status().json()
    sample.api.delete(f"/repositories/{other.repository}").raise_for_status()
    other.create(bare=True)
    return Good(path={"repository": other.repository}, body=dump)


def _deleted(sample: Sample) -> Good:
    """A repository that was deleted, and has left its data."""
    other = Sample(sample.server, sample.api)
    other.create()
    sample.api.delete(f"/repositories/{other.repository}").raise_for_status()
    return Good(path={"repository": other.repository})


def _restored(sample: Sample) -> Good:
    there = _restorable(sample)
    at = f"/repositories/{there.path['repository']}/restore"
    task = sample.api.post(at, json=there.body).raise_for_status().json()
    return Good(path=there.path, query={"task_id": task["id"]})


def _import(sample: Sample) -> Good:
    """What an import into a branch begins with; there is nothing, which it finds out later."""
    sources = [{"type": "common_prefix", "path": "local://elsewhere/x/", "destination": "in"}]
    body = {"paths": sources, "commit": {"message": "an import"}}
    return Good(path={"branch": "main"}, body=body)


def _begun_import(sample: Sample) -> Good:
    begun = sample.post("branches/main/import", _import(sample).body)
    return Good(path={"branch": "main"}, query={"id": begun["id"]})


def _reported_import(sample: Sample) -> Good:
    """An import that waits for a job on Spark."""
    body = _import(sample).body
    begun = sample.post("branches/main/import", {**body, "spark": True})
    return Good(path={"branch": "main"}, query={"id": begun["id"]}, body={"paths": body["paths"]})


def _canceled_import(sample: Sample) -> Good:
    """An import that was canceled before it found out that there is nothing; to repeat is fine."""
    for _ in range(50):
        begun = _begun_import(sample)
        at = f"/repositories/{sample.repository}/branches/main/import"
        if sample.api.delete(at, params=begun.query).is_success:
            return begun
    raise AssertionError("an import always fails before it can be canceled")


def _run(sample: Sample) -> Good:
    """A run of a hook, which fails: there is no such command."""
    hook = "{id: check, type: command, properties: {command: none}}"
    text = f"name: gate\non: {{pre-commit: }}\nhooks: [{hook}]\n"
    at = f"/repositories/{sample.repository}/branches/dirty/objects"
    path = {"path": "_lakefs_actions/gate.yaml"}
    sample.api.post(at, params=path, content=text.encode()).raise_for_status()
    commits = f"/repositories/{sample.repository}/branches/dirty/commits"
    assert sample.api.post(commits, json={"message": "refused"}).status_code == 412
    runs = sample.api.get(f"/repositories/{sample.repository}/actions/runs").json()["results"]
    return Good(path={"run_id": runs[0]["run_id"], "hook_run_id": "0000_0000"})


def _pull_request(sample: Sample, body: Any = None) -> Good:
    """A pull request that can be merged."""
    made = sample.post("pulls", _bodies(sample)["createPullRequest"])
    return Good(path={"pull_request": made["id"]}, body=body)


def _row_diff(sample: Sample) -> Good:
    """A table, whose rows are compared with themselves."""
    sample.upload("main", "table.csv")
    query = {"path": "table.csv", "right_ref": "main", "keys": ["content"]}
    return Good(path={"ref": "main"}, query=query)


def _rules(sample: Sample) -> Good:
    """Rules of garbage collection that are set."""
    at = f"/repositories/{sample.repository}/settings/gc_rules"
    sample.api.put(at, json=_bodies(sample)["setGCRules"]).raise_for_status()
    return Good()


_PREPARED: Final[dict[str, Callable[[Sample], Good]]] = {
    "diffObjectRows": _row_diff,
    "getRun": _run,
    "listRunHooks": _run,
    "getRunHookOutput": _run,
    "getPullRequest": _pull_request,
    "updatePullRequest": lambda sample: _pull_request(sample, {"title": "another"}),
    "mergePullRequest": _pull_request,
    "importStart": _import,
    "importStatus": _begun_import,
    "importCancel": _canceled_import,
    "importReport": _reported_import,
    "linkPhysicalAddress": _link,
    "endUnfinishedUpload": _unfinished,
    "uploadPart": _in_parts,
    "uploadPartCopy": _copied_part,
    "completePresignMultipartUpload": partial(_in_parts, sent=True),
    "abortPresignMultipartUpload": _in_parts,
    "getGCRules": _rules,
    "internalGetGarbageCollectionRules": _rules,
    "getPurgeStatus": lambda sample: Good(
        path={"purge": sample.post("purges", {"path": "never"})["id"]}
    ),
    "getDeletedRepository": _deleted,
    "purgeDeletedRepository": _deleted,
    "restoreRefs": _restorable,
    "restoreSubmit": _restorable,
    "restoreStatus": _restored,
    "dumpStatus": lambda sample: Good(query={"task_id": sample.post("dump")["id"]}),
    "writeOldCommits": lambda sample: Good(
        query={"run_id": sample.post("gc/prepare_uncommited")["run_id"]}
    ),
    "prepareGarbageCollectionCommitsStatus": lambda sample: Good(
        query={"id": sample.post("gc/prepare_commits/async")["id"]}
    ),
}
