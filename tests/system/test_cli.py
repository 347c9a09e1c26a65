"""The client commands, from an empty server to a merged branch and back, on a real one."""

import json
import time
from pathlib import Path

import httpx
import pytest

from lakebed.testing.servers.lakebed import LakebedServer
from tests.system.cli_kit import CommandLine


@pytest.fixture
def run(
    sqlite_lakebed: LakebedServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> CommandLine:
    return CommandLine(sqlite_lakebed, monkeypatch, capsys)


@pytest.fixture
def repo(run: CommandLine, sqlite_lakebed: LakebedServer, repository_name: str) -> str:
    """The URI of a new repository."""
    uri = f"lakefs://{repository_name}"
    run("repo", "create", uri, f"{sqlite_lakebed.namespace}/{repository_name}")
    return uri


class Files:
    """Puts small objects onto branches."""

    def __init__(self, run: CommandLine, folder: Path, repo: str) -> None:
        self._run = run
        self._folder = folder
        self._repo = repo

    def put(self, key: str, content: str = "content", *, branch: str = "main") -> None:
        file = self._folder / "upload"
        file.write_text(content)
        self._run("fs", "upload", "-s", str(file), f"{self._repo}/{branch}/{key}")

    def commit(self, message: str, *, branch: str = "main") -> str:
        made = self._run.json("commit", f"{self._repo}/{branch}", "-m", message)
        return str(made["id"])


@pytest.fixture
def files(run: CommandLine, tmp_path: Path, repo: str) -> Files:
    return Files(run, tmp_path, repo)


def test_from_nothing_to_a_merged_branch(
    run: CommandLine, sqlite_lakebed: LakebedServer, repository_name: str, tmp_path: Path
) -> None:
    repo, main, dev = (f"lakefs://{repository_name}{end}" for end in ("", "/main", "/dev"))
    namespace = f"{sqlite_lakebed.namespace}/{repository_name}"
    assert run("repo", "create", repo, namespace) == f"Created {repo} at {namespace}\n"
    assert repository_name in [item["id"] for item in run.json("repo", "list")]

    source = tmp_path / "lakes.csv"
    source.write_text("name,depth\nBaikal,1642\n")
    assert run("fs", "upload", "-s", str(source), f"{main}/data/lakes.csv") == (
        f"Uploaded {source} to {main}/data/lakes.csv (23 B)\n"
    )
    assert run("diff", main) == "added\tdata/lakes.csv\n"
    committed = run.json("commit", main, "-m", "Lakes", "--meta", "by=ada", "--meta", "n=a=b")
    assert committed["metadata"] == {"by": "ada", "n": "a=b"}
    assert run("diff", main) == ""

    assert run("branch", "create", dev, "--source", main) == f"Created {dev} at {committed['id']}\n"
    source.write_text("name,depth\nBaikal,1642\nTanganyika,1470\n")
    run("fs", "upload", "-s", str(source), f"{dev}/data/lakes.csv")
    run("commit", dev, "-m", "One more")
    assert run("diff", main, dev) == "changed\tdata/lakes.csv\n"
    assert run("diff", dev, main) == ""
    assert run("diff", dev, main, "--two-way") == "changed\tdata/lakes.csv\n"
    assert "Tanganyika" not in run("fs", "cat", f"{main}/data/lakes.csv")

    merged = run.json("merge", dev, main, "-m", "Merge dev")
    assert run("fs", "cat", f"{main}/data/lakes.csv") == source.read_text()
    assert run.json("show", "commit", main)["id"] == merged["reference"]
    messages = [item["message"] for item in run.json("log", main)]
    assert messages == ["Merge dev", "One more", "Lakes", "Repository created"]
    assert run.json("branch", "show", dev)["commit_id"] in run("log", main)


def test_repositories(
    run: CommandLine, sqlite_lakebed: LakebedServer, repository_name: str
) -> None:
    repo = f"lakefs://{repository_name}"
    namespace = f"{sqlite_lakebed.namespace}/{repository_name}"
    options = ["--default-branch", "trunk", "--sample-data"]
    made = run.json("repo", "create", repo, namespace, *options)
    assert made["default_branch"] == "trunk"
    assert run.json("fs", "ls", "-r", f"{repo}/trunk")
    [line] = [row for row in run("repo", "list").splitlines() if row.startswith(repository_name)]
    assert line.split("\t")[2:] == ["trunk", namespace]

    run("repo", "metadata", "set", repo, "owner=ada", "team=lakes")
    run("repo", "metadata", "delete", repo, "team")
    assert run.error("repo", "metadata", "delete", repo, "team", "owner") == (
        f"{repo} has no metadata team: nothing was changed"
    )
    assert run.json("repo", "metadata", "get", repo) == {"owner": "ada"}

    assert "(409)" in run.error("repo", "create", repo, namespace)
    assert run("repo", "delete", repo, "--yes") == f"Deleted {repo}\n"
    assert "(404)" in run.error("branch", "list", repo)


def test_a_read_only_repository_goes_by_force(
    run: CommandLine, sqlite_lakebed: LakebedServer, repository_name: str
) -> None:
    repo = f"lakefs://{repository_name}"
    run("repo", "create", repo, f"{sqlite_lakebed.namespace}/{repository_name}", "--read-only")
    assert "(403)" in run.error("branch", "create", f"{repo}/dev", "--source", f"{repo}/main")
    assert "(403)" in run.error("repo", "delete", repo)
    run("repo", "delete", repo, "--force")


def test_branches(run: CommandLine, repo: str, files: Files) -> None:
    for name in ("b", "a"):
        run("branch", "create", f"{repo}/{name}", "-s", f"{repo}/main")
    head = run.json("branch", "show", f"{repo}/main")["commit_id"]
    assert run("branch", "list", repo) == f"a\t{head}\nb\t{head}\nmain\t{head}\n"
    assert "(409)" in run.error("branch", "create", f"{repo}/a", "-s", f"{repo}/main")

    run("branch", "delete", f"{repo}/b")
    assert [item["id"] for item in run.json("branch", "list", repo)] == ["a", "main"]
    assert "(403)" in run.error("branch", "delete", f"{repo}/main")
    assert run.error("branch", "show", f"{repo}/b") == (
        "branch not found: b (404) (see `lakebed branch list`)"
    )


def test_resets(run: CommandLine, repo: str, files: Files) -> None:
    main = f"{repo}/main"
    for key in ("one", "two", "folder/three", "folder/four"):
        files.put(key)

    def staged() -> list[str]:
        return [item["path"] for item in run.json("diff", main)]

    nothing = f"{main} has no uncommitted changes %s: nothing was reset"
    assert run.error("branch", "reset", main, "--object", "on") == nothing % "of on"
    assert run.error("branch", "reset", main, "--prefix", "three") == nothing % "below three"
    run("branch", "reset", main, "--object", "one")
    assert staged() == ["folder/four", "folder/three", "two"]
    run("branch", "reset", main, "--prefix", "folder/")
    assert staged() == ["two"]
    run("branch", "reset", main, "-y")
    assert staged() == []
    assert run.error("branch", "reset", main) == nothing.replace(" %s", "")


def test_reverts_and_cherry_picks(run: CommandLine, repo: str, files: Files) -> None:
    main, dev = f"{repo}/main", f"{repo}/dev"
    files.put("one")
    files.commit("Add one")
    files.put("two")
    two = files.commit("Add two")
    said = run("branch", "revert", main, two)
    head = run.json("branch", "show", main)["commit_id"]
    assert said == f"Reverted {two} on {main}: {head}\n"
    assert [item["path"] for item in run.json("fs", "ls", main)] == ["one"]

    run("branch", "create", dev, "-s", f"{main}~2")
    picked = run.json("cherry-pick", f"{repo}/{two}", dev)
    assert [item["path"] for item in run.json("fs", "ls", dev)] == ["one", "two"]
    assert picked["metadata"]["cherry-pick-origin"] == two
    assert "(404)" in run.error("cherry-pick", f"{repo}/nothing", dev)

    run("merge", dev, main)
    merge = run.json("show", "commit", main)
    assert len(merge["parents"]) == 2
    assert f"parents\t{' '.join(merge['parents'])}\n" in run("show", "commit", main)
    assert run.error("branch", "revert", main, merge["id"]) == (
        f"commit {merge['id']} is a merge of 2 parents: give the number of the parent to compare"
        " with, from 1 (-m on the command line) (409)"
    )
    run("branch", "revert", main, f"{repo}/{merge['id']}", "-m", "1")
    assert [item["path"] for item in run.json("fs", "ls", main)] == ["one"]


def test_merges_that_conflict(run: CommandLine, repo: str, files: Files) -> None:
    main, dev = f"{repo}/main", f"{repo}/dev"
    run("branch", "create", dev, "-s", main)
    for branch in ("main", "dev"):
        files.put("same", branch, branch=branch)
        files.put(f"only on {branch}", branch=branch)
        files.commit(f"On {branch}", branch=branch)

    code, printed, said = run.result("merge", dev, main)
    assert (code, printed) == (1, "")
    assert said == (
        "conflict: same\n"
        "lakebed: both sides changed 'same' differently: change one side, or merge with the"
        " strategy source-wins or dest-wins (409)\n"
    )
    code, printed, _ = run.result("merge", dev, main, "--json")
    assert (code, json.loads(printed)) == (1, {"conflicts": ["same"]})

    base = run.json("merge-base", dev, main)["base_commit_id"]
    assert run.json("show", "commit", f"{main}~1")["id"] == base

    run("merge", dev, main, "--strategy", "source-wins", "--squash", "--meta", "k=v")
    assert run("fs", "cat", f"{main}/same") == "dev"
    merged = run.json("show", "commit", main)
    assert len(merged["parents"]) == 1
    assert merged["metadata"]["k"] == "v"
    code, _, said = run.result("merge", dev, main, "--strategy", "mine")
    assert code == 2
    assert "source-wins" in said


def test_empty_commits_and_merges_need_a_word(run: CommandLine, repo: str) -> None:
    main, dev = f"{repo}/main", f"{repo}/dev"
    assert run.error("commit", main, "-m", "Nothing") == (
        "nothing to commit on main: change objects first, or allow an empty commit (--allow-empty"
        " on the command line) (400)"
    )
    run("commit", main, "-m", "Nothing", "--allow-empty")
    run("branch", "create", dev, "-s", main)
    assert "(400)" in run.error("merge", dev, main)
    run("merge", dev, main, "--allow-empty")


def test_logs(run: CommandLine, repo: str, files: Files) -> None:
    main = f"{repo}/main"
    for name in ("a/1", "a/2", "b/1"):
        files.put(name)
        files.commit(f"Add {name}")

    def messages(*options: str) -> list[str]:
        return [item["message"] for item in run.json("log", main, *options)]

    assert messages() == ["Add b/1", "Add a/2", "Add a/1", "Repository created"]
    assert messages("--amount", "2") == ["Add b/1", "Add a/2"]
    assert messages("--objects", "a/1", "--objects", "b/1") == ["Add b/1", "Add a/1"]
    assert messages("--prefixes", "a/") == ["Add a/2", "Add a/1"]
    assert messages("--first-parent") == messages()
    assert messages("--since", "2100-01-01") == []
    assert messages("--since", "2020-01-01T00:00:00Z") == messages()
    assert "(404)" in run.error("log", f"{repo}/nothing")


def test_tags(run: CommandLine, repo: str) -> None:
    tag, head = f"{repo}/v1", run.json("branch", "show", f"{repo}/main")["commit_id"]
    assert run("tag", "create", tag, f"{repo}/main") == f"Created {tag} at {head}\n"
    assert run.json("tag", "show", tag) == {"id": "v1", "commit_id": head}
    assert run("tag", "list", repo) == f"v1\t{head}\n"
    assert "(409)" in run.error("tag", "create", tag, f"{repo}/main")
    run("tag", "delete", tag)
    assert run.json("tag", "list", repo) == []
    assert "(404)" in run.error("tag", "delete", tag)


_SHUT = """\
name: shut
on: {pre-commit: , pre-merge: , pre-revert: , pre-cherry-pick: ,
     pre-create-branch: , pre-delete-branch: , pre-create-tag: , pre-delete-tag: }
hooks:
  - {id: never, type: lua, properties: {script: error("no")}}
"""


def test_administrators_skip_hooks(run: CommandLine, repo: str, files: Files) -> None:
    main, dev, tag = f"{repo}/main", f"{repo}/dev", f"{repo}/v1"
    run("branch", "create", dev, "-s", main)
    files.put("_lakefs_actions/shut.yaml", _SHUT)
    run("commit", main, "-m", "Shut the gate", "--skip-hooks")
    made = run.json("show", "commit", main)
    assert made["metadata"] == {".lakebed.hooks_skipped_by": "admin"}
    assert run("actions", "runs", "list", repo).split("\t")[4] == "skipped"
    files.put("data")
    files.put("other", branch="dev")
    files.commit("Other", branch="dev")
    for command in (
        ("commit", main, "-m", "Data"),
        ("branch", "revert", main, "main", "--yes"),
        ("merge", dev, main),
        ("cherry-pick", dev, main),
        ("branch", "create", f"{repo}/new", "-s", main),
        ("tag", "create", tag, main),
        ("tag", "delete", tag, "--yes"),
        ("branch", "delete", f"{repo}/new", "--yes"),
    ):
        _, printed, said = run.result(*command)
        assert "hook aborted" in said, (command, printed, said)
        run(*command, "--skip-hooks")


def test_a_refused_commit_says_so(run: CommandLine, repo: str, files: Files) -> None:
    main = f"{repo}/main"
    files.put("_lakefs_actions/shut.yaml", _SHUT)
    run.result("commit", main, "-m", "Refused")
    refused = f"{repo}/{run.json('actions', 'runs', 'list', repo)[0]['commit_id']}"
    by = run.json("show", "commit", refused)["refused"]
    assert by.startswith("pre-commit hook 'never' of action 'shut', run ")
    assert f"refused by {by}: no branch or tag can point to it (412)" in run.error(
        "branch", "create", f"{repo}/sneak", "-s", refused
    )


def test_hooks_are_strict_or_not(run: CommandLine, repo: str) -> None:
    assert run.json("actions", "settings", repo) == {"strict": True}
    assert run("actions", "settings", repo, "--no-strict") == f"Strict hooks of {repo} are off\n"
    assert run.json("actions", "settings", repo) == {"strict": False}


def test_protected_branches(run: CommandLine, repo: str, files: Files) -> None:
    assert run.json("branch-protect", "list", repo) == []
    run("branch-protect", "add", repo, "stable-*")
    run("branch-protect", "add", repo, "main")
    run("branch-protect", "add", repo, "main")
    assert run("branch-protect", "list", repo).split() == ["stable-*", "main"]
    assert "(403)" in run.error("commit", f"{repo}/main", "-m", "x", "--allow-empty")
    run("branch-protect", "delete", repo, "main")
    run("commit", f"{repo}/main", "-m", "x", "--allow-empty")
    assert run.error("branch-protect", "delete", repo, "main") == (
        f"{repo} has no rule 'main': see `lakebed branch-protect list`"
    )


def test_refs_are_dumped_and_restored(
    run: CommandLine, sqlite_lakebed: LakebedServer, repo: str, files: Files, tmp_path: Path
) -> None:
    files.put("one")
    head = files.commit("Add one")
    run("tag", "create", f"{repo}/v1", f"{repo}/main")
    manifest = tmp_path / "refs.json"
    manifest.write_text(run("refs-dump", repo))
    namespace = f"{sqlite_lakebed.namespace}/{repo.removeprefix('lakefs://')}"
    run("repo", "delete", repo)

    run("repo", "create-bare", repo, namespace)
    assert run.json("branch", "list", repo) == []
    run("refs-restore", repo, "--manifest", str(manifest))
    assert run.json("branch", "show", f"{repo}/main")["commit_id"] == head
    assert run.json("tag", "show", f"{repo}/v1")["commit_id"] == head
    assert run("fs", "cat", f"{repo}/v1/one") == "content"

    manifest.write_text("nonsense")
    assert run.error("refs-restore", repo, "--manifest", str(manifest)) == (
        f"{manifest} is not JSON: expected the output of refs-dump"
    )


def test_users_groups_and_policies(
    run: CommandLine, repository_name: str, repo: str, tmp_path: Path
) -> None:
    user, group, policy = (f"{kind}-{repository_name}" for kind in ("user", "group", "policy"))
    document = tmp_path / "policy.json"
    statement = [{"effect": "allow", "action": ["fs:ListRepositories"], "resource": "*"}]
    document.write_text(json.dumps({"statement": statement}))

    run("auth", "users", "create", "--id", user)
    run("auth", "groups", "create", "--id", group, "--description", "for a test")
    run("auth", "policies", "create", "--id", policy, "--statement-document", str(document))
    for kind, name in (("users", user), ("groups", group), ("policies", policy)):
        assert name in [item["id"] for item in run.json("auth", kind, "list")]
        assert "(409)" in run.error(*_creation(kind, name, document))
    assert run.json("auth", "policies", "show", "--id", policy)["statement"] == statement
    assert run("auth", "policies", "show", "--id", policy) == "allow\tfs:ListRepositories\t*\n"

    run("auth", "groups", "members", "add", "--id", group, "--user", user)
    run("auth", "groups", "policies", "attach", "--id", group, "--policy", policy)
    run("auth", "users", "policies", "attach", "--id", user, "--policy", "AuthManageOwnCredentials")
    assert _names(run, "auth", "groups", "members", "list", "--id", group) == [user]
    assert _names(run, "auth", "groups", "policies", "list", "--id", group) == [policy]
    assert _names(run, "auth", "users", "groups", "list", "--id", user) == [group]
    own = ("auth", "users", "policies", "list", "--id", user)
    assert _names(run, *own) == ["AuthManageOwnCredentials"]
    assert set(_names(run, *own, "--effective")) == {"AuthManageOwnCredentials", policy}

    _act_as(run, user, repo)

    run("auth", "users", "policies", "detach", "--id", user, "--policy", "AuthManageOwnCredentials")
    run("auth", "groups", "policies", "detach", "--id", group, "--policy", policy)
    run("auth", "groups", "members", "remove", "--id", group, "--user", user)
    assert _names(run, *own, "--effective") == []
    for kind, name in (("users", user), ("groups", group), ("policies", policy)):
        run("auth", kind, "delete", "--id", name, "--yes")
        assert name not in _names(run, "auth", kind, "list")
        assert "(404)" in run.error("auth", kind, "delete", "--id", name)


def _creation(kind: str, name: str, document: Path) -> list[str]:
    extra = ["--statement-document", str(document)] if kind == "policies" else []
    return ["auth", kind, "create", "--id", name, *extra]


def _names(run: CommandLine, *arguments: str) -> list[str]:
    return [item["id"] for item in run.json(*arguments)]


def _act_as(run: CommandLine, user: str, repo: str) -> None:
    """Make a key for a user, and see what it opens."""
    made = run.json("auth", "users", "credentials", "create", "--id", user)
    listed = run("auth", "users", "credentials", "list", "--id", user)
    assert made["access_key_id"] in listed
    assert made["secret_access_key"] not in listed
    with pytest.MonkeyPatch.context() as changed:
        changed.setenv("LAKEBED_ACCESS_KEY_ID", made["access_key_id"])
        changed.setenv("LAKEBED_SECRET_ACCESS_KEY", made["secret_access_key"])
        assert run.json("identity")["id"] == user
        assert repo.removeprefix("lakefs://") in _names(run, "repo", "list")
        assert "(401)" in run.error("branch", "list", repo)
        own = run.json("auth", "users", "credentials", "list")
        assert [item["access_key_id"] for item in own] == [made["access_key_id"]]
    key = ["--access-key-id", made["access_key_id"]]
    run("auth", "users", "credentials", "delete", "--id", user, *key)
    assert run.json("auth", "users", "credentials", "list", "--id", user) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        pytest.param("[" * 50_000, "is not a policy", id="deep"),
        ("{}", "is not a policy"),
        ('"x"', "is not a policy"),
    ],
)
def test_a_wrong_policy_document_is_named(
    run: CommandLine, tmp_path: Path, content: str, message: str
) -> None:
    document = tmp_path / "policy.json"
    document.write_text(content)
    said = run.error(*_creation("policies", "wrong", document))
    assert said.startswith(f"{document} {message}")


def test_identity_and_doctor(run: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run.json("identity")["id"] == "admin"
    assert run("identity").startswith("id\tadmin\n")
    findings = run.json("doctor")
    assert [(item["check"], item["ok"]) for item in findings] == [
        ("settings", True),
        ("server", True),
        ("credentials", True),
        ("versions", True),
        ("clock", True),
    ]

    for name, value, failing in (
        ("LAKEBED_SECRET_ACCESS_KEY", "wrong", "credentials"),
        ("LAKEBED_ENDPOINT", "http://127.0.0.1:1", "server"),
        ("LAKEBED_ENDPOINT", "nonsense", "settings"),
    ):
        monkeypatch.setenv(name, value)
        code, printed, said = run.result("doctor", "--json")
        last = json.loads(printed)[-1]
        assert (code, last["check"], last["ok"]) == (1, failing, False)
        assert last["advice"]
        assert json.loads(said)["message"] == "a check failed, see above"


def test_wrong_credentials_are_said_to_be(
    run: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEBED_SECRET_ACCESS_KEY", "wrong")
    assert run.error("repo", "list") == (
        "authentication failed: check the access key id and the secret access key (401)"
    )


def test_the_address_of_an_object_opens_it_to_anyone(
    run: CommandLine, repo: str, files: Files
) -> None:
    files.put("one")
    address = run("fs", "presign", f"{repo}/main/one").rstrip("\n")
    assert httpx.get(address, trust_env=False, timeout=60).text == "content"
    assert run.json("fs", "presign", f"{repo}/main/one")["expiry"] > time.time()


def test_copies_moves_and_objects_that_are_elsewhere(
    run: CommandLine, sqlite_lakebed: LakebedServer, repo: str, files: Files
) -> None:
    main, dev = f"{repo}/main", f"{repo}/dev"
    for key in ("f/one", "f/deep/two"):
        files.put(key, key)
    files.commit("committed")
    run("branch", "create", dev, "--source", main)
    said = run("fs", "cp", f"{main}/f/one", f"{dev}/copies/")
    assert said == f"Copied {main}/f/one to {dev}/copies/one (5 B)\n"
    assert run("fs", "cp", "-r", f"{main}/f", f"{dev}/g").endswith("2 object(s), 15 B\n")
    source = run.json("fs", "stat", f"{main}/f/deep/two")["physical_address"]
    assert run.json("fs", "stat", f"{dev}/g/deep/two")["physical_address"] == source, "shared"
    assert run("fs", "cat", f"{dev}/copies/one") == "f/one"
    run("fs", "mv", f"{main}/f/one", f"{main}/f/uno")
    run("fs", "mv", "-r", f"{main}/f", f"{main}/h")
    paths = [item["path"] for item in run.json("fs", "ls", "-r", f"{main}/")]
    assert paths == ["h/deep/two", "h/uno"]
    assert "not found" in run.error("fs", "mv", f"{main}~1/f/one", f"{main}/f/one")
    # An object that somebody else put into the storage.
    place = sqlite_lakebed.namespace.removeprefix("local://") + "-elsewhere/a.csv"
    file = sqlite_lakebed.folder / "objects" / place
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("elsewhere")
    options = ("--size", "9", "--checksum", "0f", "--content-type", "text/csv", "--meta", "k=v")
    run("fs", "stage", f"{main}/staged", "--location", f"local://{place}", *options)
    assert run("fs", "cat", f"{main}/staged") == "elsewhere"
    found = run.json("fs", "stat", f"{main}/staged")
    assert (found["content_type"], found["metadata"]) == ("text/csv", {"k": "v"})
    inside = ("--location", source, "--size", "10", "--checksum", "0f")
    assert "storage namespace" in run.error("fs", "stage", f"{main}/stolen", *inside)
