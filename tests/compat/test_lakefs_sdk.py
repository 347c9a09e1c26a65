"""Every operation through lakefs-sdk, the generated client, against real server processes."""

import io
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import lakefs_sdk as sdk
import pyarrow.parquet as pq
import pytest
from lakefs_sdk.client import LakeFSClient
from lakefs_sdk.exceptions import ApiException, NotFoundException, UnauthorizedException

from lakebed.testing.servers.lakebed import LakebedServer

# Older operations are called here on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning")


class Repository:
    """A repository, through the client."""

    def __init__(self, client: LakeFSClient, server: LakebedServer, name: str) -> None:
        self.client = client
        self.name = name
        self.namespace = f"{server.namespace}/{name}"
        client.repositories_api.create_repository(
            sdk.RepositoryCreation(name=name, storage_namespace=self.namespace)
        )

    def put(self, path: str, data: bytes | str = b"data", branch: str = "main") -> sdk.ObjectStats:
        return self.client.objects_api.upload_object(self.name, branch, path, content=data)

    def commit(self, message: str = "a commit", branch: str = "main") -> sdk.Commit:
        return self.client.commits_api.commit(
            self.name, branch, sdk.CommitCreation(message=message)
        )

    def branch(self, name: str, source: str = "main") -> str:
        wanted = sdk.BranchCreation(name=name, source=source)
        return str(self.client.branches_api.create_branch(self.name, wanted))

    def read(self, ref: str, path: str) -> bytes:
        return bytes(self.client.objects_api.get_object(self.name, ref, path))

    def log(self, ref: str = "main", **options: object) -> list[str]:
        page = self.client.refs_api.log_commits(self.name, ref, **options)
        return [commit.message for commit in page.results]


@pytest.fixture
def client(lakebed: LakebedServer) -> LakeFSClient:
    return client_of(lakebed)


def client_of(server: LakebedServer, pair: sdk.CredentialsWithSecret | None = None) -> LakeFSClient:
    return LakeFSClient(
        sdk.Configuration(
            host=f"{server.endpoint}/api/v1",
            username=pair.access_key_id if pair else server.access_key_id,
            password=pair.secret_access_key if pair else server.secret_access_key,
        )
    )


@pytest.fixture
def lake(lakebed: LakebedServer, client: LakeFSClient, repository_name: str) -> Repository:
    return Repository(client, lakebed, repository_name)


def status_of(error: pytest.ExceptionInfo[ApiException]) -> int:
    return int(error.value.status)


def test_health_and_configuration(client: LakeFSClient) -> None:
    client.health_check_api.health_check()
    config = client.config_api.get_config()
    assert config.storage_config.blockstore_type == "local"
    assert config.version_config.version
    assert client.internal_api.get_storage_config() == config.storage_config
    assert client.internal_api.get_lake_fs_version() == config.version_config
    assert client.internal_api.get_garbage_collection_config().grace_period == 86400
    assert client.internal_api.get_setup_state().state == "initialized"
    with pytest.raises(ApiException) as refused:
        client.internal_api.setup(sdk.Setup(username="another"))
    assert status_of(refused) == 409


def test_repositories(lake: Repository) -> None:
    api = lake.client.repositories_api
    made = api.get_repository(lake.name)
    assert (made.id, made.default_branch, made.read_only) == (lake.name, "main", False)
    assert made.storage_namespace == lake.namespace
    found = api.list_repositories(prefix=lake.name)
    assert [each.id for each in found.results] == [lake.name]
    with pytest.raises(ApiException) as taken:
        api.create_repository(
            sdk.RepositoryCreation(name=lake.name, storage_namespace=lake.namespace + "-2")
        )
    assert status_of(taken) == 409
    assert "not unique" in taken.value.body
    with pytest.raises(ApiException) as nested:
        api.create_repository(
            sdk.RepositoryCreation(name="nested-one", storage_namespace=lake.namespace + "/in")
        )
    assert status_of(nested) == 400
    api.delete_repository(lake.name)
    with pytest.raises(NotFoundException) as gone:
        api.get_repository(lake.name)
    assert "repository not found" in gone.value.body
    # The name is free at once, and so is the place.
    api.create_repository(sdk.RepositoryCreation(name=lake.name, storage_namespace=lake.namespace))


def test_repository_metadata_and_read_only(lake: Repository, lakebed: LakebedServer) -> None:
    internal, api = lake.client.internal_api, lake.client.repositories_api
    internal.set_repository_metadata(
        lake.name, sdk.RepositoryMetadataSet(metadata={"owner": "me", "team": "x"})
    )
    internal.delete_repository_metadata(lake.name, sdk.RepositoryMetadataKeys(keys=["team"]))
    assert api.get_repository_metadata(lake.name) == {"owner": "me"}
    name = f"{lake.name}-ro"
    api.create_repository(
        sdk.RepositoryCreation(
            name=name, storage_namespace=f"{lakebed.namespace}/{name}", read_only=True
        )
    )
    with pytest.raises(ApiException) as refused:
        lake.client.objects_api.upload_object(name, "main", "x", content=b"x")
    assert status_of(refused) == 403
    with pytest.raises(ApiException) as kept:
        api.delete_repository(name)
    assert status_of(kept) == 403
    api.delete_repository(name, force=True)


def test_branches(lake: Repository) -> None:
    api = lake.client.branches_api
    head = api.get_branch(lake.name, "main").commit_id
    assert lake.branch("dev") == head
    api.create_branch(lake.name, sdk.BranchCreation(name="secret", source="main", hidden=True))
    assert [each.id for each in api.list_branches(lake.name).results] == ["dev", "main"]
    shown = api.list_branches(lake.name, show_hidden=True, amount=2)
    assert [each.id for each in shown.results] == ["dev", "main"]
    assert shown.pagination.has_more
    rest = api.list_branches(lake.name, show_hidden=True, after=shown.pagination.next_offset)
    assert [each.id for each in rest.results] == ["secret"]
    with pytest.raises(ApiException) as taken:
        lake.branch("dev")
    assert status_of(taken) == 409
    with pytest.raises(ApiException) as default:
        api.delete_branch(lake.name, "main")
    assert status_of(default) == 403
    api.delete_branch(lake.name, "dev")
    with pytest.raises(NotFoundException):
        api.get_branch(lake.name, "dev")
    for bad in ("../x", "a b", "-a", "ä", "x" * 256):
        with pytest.raises(ApiException) as invalid:
            lake.branch(bad)
        assert status_of(invalid) == 400


def test_tags(lake: Repository) -> None:
    api = lake.client.tags_api
    commit = lake.client.branches_api.get_branch(lake.name, "main").commit_id
    for name in ("v1", "releases/2026/v2"):
        made = api.create_tag(lake.name, sdk.TagCreation(id=name, ref="main"))
        assert (made.id, made.commit_id) == (name, commit)
        assert api.get_tag(lake.name, name) == made
    assert [tag.id for tag in api.list_tags(lake.name).results] == ["releases/2026/v2", "v1"]
    with pytest.raises(ApiException) as taken:
        api.create_tag(lake.name, sdk.TagCreation(id="v1", ref="main"))
    assert status_of(taken) == 409
    api.delete_tag(lake.name, "v1")
    with pytest.raises(NotFoundException):
        api.get_tag(lake.name, "v1")


def test_commits_and_log(lake: Repository) -> None:
    with pytest.raises(ApiException) as nothing:
        lake.commit()
    assert status_of(nothing) == 400
    assert "commit: no changes" in nothing.value.body
    lake.put("a/1")
    first = lake.commit("first")
    lake.put("b/1")
    second = lake.client.commits_api.commit(
        lake.name,
        "main",
        sdk.CommitCreation(message="second", metadata={"k": "v"}, date=1_700_000_000),
    )
    assert (second.metadata, second.creation_date) == ({"k": "v"}, 1_700_000_000)
    assert second.parents == [first.id]
    assert lake.client.commits_api.get_commit(lake.name, second.id) == second
    assert lake.log() == ["second", "first", "Repository created"]
    assert lake.log(objects=["a/1"]) == ["first"]
    assert lake.log(prefixes=["b/"]) == ["second"]
    assert lake.log(stop_at=first.id) == ["second", "first"]
    assert lake.log("main~1") == ["first", "Repository created"]
    assert lake.log(amount=1, after=second.id) == ["first"]
    assert lake.log(first.id, since=datetime.now(UTC) + timedelta(days=1)) == []
    with pytest.raises(NotFoundException):
        lake.log("nowhere")
    empty = lake.client.commits_api.commit(
        lake.name, "main", sdk.CommitCreation(message="empty", allow_empty=True)
    )
    assert empty.meta_range_id == second.meta_range_id


def test_diff_and_reset(lake: Repository) -> None:
    lake.put("kept")
    lake.put("changed", b"1")
    lake.put("removed")
    lake.commit()
    lake.put("folder/added")
    lake.put("changed", b"2")
    lake.client.objects_api.delete_object(lake.name, "main", "removed")

    def changes(**options: object) -> list[tuple[str, str]]:
        page = lake.client.branches_api.diff_branch(lake.name, "main", **options)
        return [(each.type, each.path) for each in page.results]

    assert changes() == [
        ("changed", "changed"),
        ("added", "folder/added"),
        ("removed", "removed"),
    ]
    assert changes(delimiter="/", prefix="f") == [("prefix_changed", "folder/")]
    assert changes(amount=1, after="changed") == [("added", "folder/added")]
    reset = lake.client.branches_api.reset_branch
    reset(lake.name, "main", sdk.ResetCreation(type="object", path="changed"))
    reset(lake.name, "main", sdk.ResetCreation(type="common_prefix", path="folder/"))
    assert changes() == [("removed", "removed")]
    reset(lake.name, "main", sdk.ResetCreation(type="reset"))
    assert changes() == []


def test_diff_of_refs(lake: Repository) -> None:
    lake.put("both", b"0")
    lake.commit("base")
    lake.branch("dev")
    lake.put("both", b"dev", "dev")
    lake.put("only-dev", b"x", "dev")
    lake.commit("on dev", "dev")
    lake.put("both", b"main")
    lake.put("only-main")
    lake.commit("on main")

    def difference(left: str, right: str, **options: object) -> list[tuple[str, str]]:
        page = lake.client.refs_api.diff_refs(lake.name, left, right, **options)
        return [(each.type, each.path) for each in page.results]

    assert difference("main", "dev") == [("conflict", "both"), ("added", "only-dev")]
    assert difference("main", "dev", type="two_dot") == [
        ("changed", "both"),
        ("added", "only-dev"),
        ("removed", "only-main"),
    ]
    removed = lake.client.refs_api.diff_refs(lake.name, "main", "dev", type="two_dot").results[2]
    assert removed.size_bytes == len(lake.read("main", "only-main")) > 0
    stats = lake.client.refs_api.diff_refs(lake.name, "main", "dev", include_right_stats=True)
    assert stats.results[1].right.checksum == "9dd4e461268c8034f5c8564e155c67a6"
    base = lake.client.refs_api.find_merge_base(lake.name, "dev", "main")
    assert lake.log(base.base_commit_id)[0] == "base"


def test_merge(lake: Repository) -> None:
    lake.put("a", b"0")
    lake.commit("base")
    lake.branch("dev")
    lake.put("a", b"dev", "dev")
    lake.commit("on dev", "dev")
    merge = lake.client.refs_api.merge_into_branch
    lake.put("dirt")
    with pytest.raises(ApiException) as dirty:
        merge(lake.name, "dev", "main")
    assert status_of(dirty) == 400
    lake.commit("dirt")
    merged = merge(lake.name, "dev", "main", merge=sdk.Merge(message="merged"))
    assert lake.read("main", "a") == b"dev"
    assert lake.log()[0] == "merged"
    commit = lake.client.commits_api.get_commit(lake.name, merged.reference)
    assert len(commit.parents) == 2
    with pytest.raises(ApiException) as nothing:
        merge(lake.name, "dev", "main")
    assert status_of(nothing) == 400
    lake.put("a", b"main again")
    lake.commit("again on main")
    lake.put("a", b"dev again", "dev")
    lake.commit("again on dev", "dev")
    with pytest.raises(ApiException) as conflict:
        merge(lake.name, "dev", "main")
    assert status_of(conflict) == 409
    assert '"a"' in conflict.value.body
    merge(lake.name, "dev", "main", merge=sdk.Merge(strategy="dest-wins"))
    assert lake.read("main", "a") == b"main again"
    wrong = sdk.Merge.construct(strategy="mine")
    with pytest.raises(ApiException) as strategy:
        merge(lake.name, "dev", "main", merge=wrong)
    assert status_of(strategy) == 400


def test_revert_cherry_pick_hard_reset(lake: Repository) -> None:
    lake.put("a", b"1")
    first = lake.commit("first")
    lake.put("b", b"2")
    second = lake.commit("second")
    api = lake.client.branches_api
    api.revert_branch(lake.name, "main", sdk.RevertCreation(ref=first.id, parent_number=0))
    with pytest.raises(NotFoundException):
        lake.read("main", "a")
    assert lake.read("main", "b") == b"2"
    lake.branch("picked", f"{first.id}~1")
    picked = api.cherry_pick(lake.name, "picked", sdk.CherryPickCreation(ref=second.id))
    assert picked.metadata["cherry-pick-origin"] == second.id
    assert lake.read("picked", "b") == b"2"
    lake.client.experimental_api.hard_reset_branch(lake.name, "main", first.id)
    assert lake.log()[0] == "first"
    assert lake.read("main", "a") == b"1"
    lake.branch("side", f"{first.id}~1")
    lake.put("c", b"3", "side")
    lake.commit("side", "side")
    merged = lake.client.refs_api.merge_into_branch(lake.name, "side", "main").reference
    with pytest.raises(ApiException) as which:
        api.revert_branch(lake.name, "main", sdk.RevertCreation(ref=merged, parent_number=0))
    assert status_of(which) == 409
    api.revert_branch(lake.name, "main", sdk.RevertCreation(ref=merged, parent_number=1))
    with pytest.raises(NotFoundException):
        lake.read("main", "c")


def test_branch_protection(lake: Repository) -> None:
    api = lake.client.repositories_api
    api.set_branch_protection_rules(lake.name, [sdk.BranchProtectionRule(pattern="ma*")])
    assert [rule.pattern for rule in api.get_branch_protection_rules(lake.name)] == ["ma*"]
    writes: list[Callable[[], object]] = [lambda: lake.put("x"), lake.commit]
    for refused in writes:
        with pytest.raises(ApiException) as protected:
            refused()
        assert status_of(protected) == 403
    lake.branch("dev")
    lake.put("x", b"x", "dev")
    lake.commit("x", "dev")
    lake.client.refs_api.merge_into_branch(lake.name, "dev", "main")
    with pytest.raises(ApiException) as changed:
        api.set_branch_protection_rules(lake.name, [], if_match="ffff")
    assert status_of(changed) == 412
    answer = api.get_branch_protection_rules_with_http_info(lake.name)
    api.set_branch_protection_rules(lake.name, [], if_match=answer.headers["ETag"])
    assert api.get_branch_protection_rules(lake.name) == []


def test_objects(lake: Repository) -> None:
    api = lake.client.objects_api
    stored = lake.put("folder/ünï code.txt", b"0123456789")
    assert (stored.size_bytes, stored.checksum) == (10, "781e5e245d69b566979b86e28d23f2c7")
    assert lake.read("main", "folder/ünï code.txt") == b"0123456789"
    part = api.get_object(lake.name, "main", stored.path, range="bytes=2-4")
    assert bytes(part) == b"234"
    api.head_object(lake.name, "main", stored.path)
    stat = api.stat_object(lake.name, "main", stored.path)
    assert stat == stored
    api.get_underlying_properties(lake.name, "main", stored.path)
    copied = api.copy_object(
        lake.name, "main", "copy", sdk.ObjectCopyCreation(src_path=stored.path)
    )
    assert copied.checksum == stored.checksum
    lake.client.experimental_api.update_object_user_metadata(
        lake.name, "main", "copy", sdk.UpdateObjectUserMetadata(set={"colour": "blue"})
    )
    assert api.stat_object(lake.name, "main", "copy").metadata == {"colour": "blue"}
    listed = api.list_objects(lake.name, "main", delimiter="/")
    assert [(each.path, each.path_type) for each in listed.results] == [
        ("copy", "object"),
        ("folder/", "common_prefix"),
    ]
    with pytest.raises(ApiException) as there:
        api.upload_object(lake.name, "main", "copy", content=b"x", if_none_match="*")
    assert status_of(there) == 412
    failed = api.delete_objects(lake.name, "main", sdk.PathList(paths=["copy", "none"]))
    assert failed.errors == []
    api.delete_object(lake.name, "main", "never there")
    with pytest.raises(NotFoundException):
        api.stat_object(lake.name, "main", "copy")
    lake.client.internal_api.upload_object_preflight(lake.name, "main", "x")


def test_links_and_staging(lake: Repository, lakebed: LakebedServer) -> None:
    api = lake.client.staging_api
    location = api.get_physical_address(lake.name, "main", "linked")
    where = location.physical_address.removeprefix("local://")
    (lakebed.folder / "objects" / where).parent.mkdir(parents=True, exist_ok=True)
    (lakebed.folder / "objects" / where).write_bytes(b"by hand")
    metadata = sdk.StagingMetadata(
        staging=location, checksum="00ff", size_bytes=7, user_metadata={"a": "b"}
    )
    linked = api.link_physical_address(lake.name, "main", "linked", metadata)
    assert linked.metadata == {"a": "b"}
    assert lake.read("main", "linked") == b"by hand"
    again = api.link_physical_address(lake.name, "main", "linked", metadata)
    assert again.physical_address == linked.physical_address
    with pytest.raises(ApiException) as used:
        api.link_physical_address(lake.name, "main", "elsewhere", metadata)
    assert status_of(used) == 400
    with pytest.raises(ApiException) as inside:
        lake.client.internal_api.stage_object(
            lake.name,
            "main",
            "staged",
            sdk.ObjectStageCreation(
                physical_address=linked.physical_address, checksum="00", size_bytes=7
            ),
        )
    assert status_of(inside) == 400


def test_metadata_files(lake: Repository) -> None:
    lake.put("a")
    commit = lake.commit()
    api = lake.client.metadata_api
    found = api.get_meta_range(lake.name, commit.meta_range_id)
    assert found.location.startswith(lake.namespace)
    served = lake.client.internal_api.get_metadata_object(
        lake.name, commit.meta_range_id, "meta_range"
    )
    ranges = pq.read_table(io.BytesIO(bytes(served))).to_pylist()
    assert [row["count"] for row in ranges] == [1]
    range_id = ranges[0]["range_id"]
    assert api.get_range(lake.name, range_id).location.endswith(f"{range_id}.parquet")
    with pytest.raises(NotFoundException):
        api.get_range(lake.name, "0" * 64)
    symlinks = lake.client.internal_api.create_symlink_file(lake.name, "main")
    assert symlinks.location.startswith(lake.namespace)


def test_dump_and_restore(lake: Repository, lakebed: LakebedServer) -> None:
    lake.put("a", b"1")
    lake.commit("first")
    lake.branch("dev")
    lake.client.tags_api.create_tag(lake.name, sdk.TagCreation(id="v1", ref="main"))
    before = lake.log()
    dump = lake.client.internal_api.dump_refs(lake.name)
    api = lake.client.repositories_api
    task = api.dump_submit(lake.name)
    status = _done(lambda: api.dump_status(lake.name, task.id))
    assert status.error is None
    assert status.refs.commits_meta_range_id
    api.delete_repository(lake.name)
    api.create_repository(
        sdk.RepositoryCreation(name=lake.name, storage_namespace=lake.namespace), bare=True
    )
    restore = sdk.RefsRestore(**dump.to_dict())
    task = api.restore_submit(lake.name, restore)
    restored = _done(lambda: api.restore_status(lake.name, task.id))
    assert restored.error is None
    assert lake.log() == before
    assert lake.read("v1", "a") == b"1"
    lake.client.internal_api.restore_refs(lake.name, restore)  # the same again: done already


def _done(status: Callable[[], Any], field: str = "done") -> Any:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        found = status()
        if getattr(found, field):
            return found
        time.sleep(0.05)
    raise AssertionError("the task does not end")


def test_users_groups_policies(lake: Repository, lakebed: LakebedServer) -> None:
    api = lake.client.auth_api
    name = f"user-{lake.name}"
    user = api.create_user(user_creation=sdk.UserCreation(id=name))
    assert api.get_user(name) == user
    with pytest.raises(ApiException) as taken:
        api.create_user(user_creation=sdk.UserCreation(id=name))
    assert status_of(taken) == 409
    pair = api.create_credentials(name)
    theirs = client_of(lakebed, pair)
    assert theirs.auth_api.get_current_user().user.id == name
    with pytest.raises(UnauthorizedException):
        theirs.objects_api.list_objects(lake.name, "main")
    statement = sdk.Statement(
        effect="allow",
        resource=f"arn:lakefs:fs:::repository/{lake.name}",
        action=["fs:ListObjects"],
    )
    policy = f"policy-{lake.name}"
    api.create_policy(sdk.Policy(id=policy, statement=[statement]))
    group = f"group-{lake.name}"
    api.create_group(group_creation=sdk.GroupCreation(id=group))
    api.attach_policy_to_group(group, policy)
    api.add_group_membership(group, name)
    assert [each.id for each in api.list_group_members(group).results] == [name]
    assert [each.id for each in api.list_user_groups(name).results] == [group]
    assert [each.id for each in api.list_group_policies(group).results] == [policy]
    effective = api.list_user_policies(name, effective=True)
    assert [each.id for each in effective.results] == [policy]
    _until(lambda: theirs.objects_api.list_objects(lake.name, "main"))
    with pytest.raises(UnauthorizedException):
        theirs.objects_api.upload_object(lake.name, "main", "x", content=b"x")
    token = theirs.auth_api.login(
        login_information=sdk.LoginInformation(
            access_key_id=pair.access_key_id, secret_access_key=pair.secret_access_key
        )
    )
    bearer = LakeFSClient(
        sdk.Configuration(host=f"{lakebed.endpoint}/api/v1", access_token=token.token)
    )
    assert bearer.auth_api.get_current_user().user.id == name
    keys = api.list_user_credentials(name)
    assert [each.access_key_id for each in keys.results] == [pair.access_key_id]
    api.delete_credentials(name, pair.access_key_id)
    api.delete_group_membership(group, name)
    api.detach_policy_from_group(group, policy)
    api.delete_group(group)
    api.delete_policy(policy)
    api.delete_user(name)
    with pytest.raises(NotFoundException):
        api.get_user(name)


def _until(call: Callable[[], object]) -> None:
    """Wait until what another worker may have cached is forgotten."""
    until = time.monotonic() + 60
    while True:
        try:
            call()
        except UnauthorizedException:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
        else:
            return


def test_wrong_keys(lakebed: LakebedServer) -> None:
    pair = sdk.CredentialsWithSecret(
        access_key_id=lakebed.access_key_id, secret_access_key="wrong", creation_date=0
    )
    with pytest.raises(UnauthorizedException) as refused:
        client_of(lakebed, pair).repositories_api.list_repositories()
    assert "error authenticating request" in refused.value.body


def test_what_is_not_there_yet_says_so(lake: Repository) -> None:
    calls: list[Callable[[], object]] = [
        lambda: lake.client.external_api.get_external_principal("none"),
    ]
    for call in calls:
        with pytest.raises(ApiException) as missing:
            call()
        assert status_of(missing) == 501
        assert "not implemented" in missing.value.body


def test_rules_of_garbage_collection(lake: Repository) -> None:
    api = lake.client.repositories_api
    with pytest.raises(NotFoundException):
        api.get_gc_rules(lake.name)
    rule = sdk.GarbageCollectionRule(branch_id="main", retention_days=28)
    rules = sdk.GarbageCollectionRules(default_retention_days=21, branches=[rule])
    api.set_gc_rules(lake.name, rules)
    assert api.get_gc_rules(lake.name) == rules
    assert lake.client.internal_api.internal_get_garbage_collection_rules(lake.name) == rules
    none = sdk.GarbageCollectionRules(default_retention_days=21, branches=[])
    lake.client.internal_api.internal_set_garbage_collection_rules(lake.name, none)
    assert api.get_gc_rules(lake.name) == none
    for days in (0, -1):
        wrong = sdk.GarbageCollectionRules(default_retention_days=days, branches=[])
        with pytest.raises(ApiException, match="use 1 to") as refused:
            api.set_gc_rules(lake.name, wrong)
        assert status_of(refused) == 400
    api.delete_gc_rules(lake.name)
    with pytest.raises(NotFoundException):
        api.get_gc_rules(lake.name)


def test_an_object_in_presigned_parts(lake: Repository) -> None:
    """As lakectl does it for large files, call by call."""
    api, at = lake.client.experimental_api, (lake.name, "main")
    assert lake.client.config_api.get_config().storage_config.pre_sign_multipart_upload
    begun = api.create_presign_multipart_upload(*at, path="big", parts=2)
    assert begun.presigned_urls is not None
    bodies = [b"1" * (5 << 20), b"end"]
    urls = [begun.presigned_urls[0]]
    address = begun.physical_address
    wanted = sdk.UploadPartFrom(physical_address=address)
    urls.append(api.upload_part(*at, begun.upload_id, "big", 2, wanted).presigned_url)
    parts = []
    for number, (url, body) in enumerate(zip(urls, bodies, strict=True), start=1):
        sent = httpx.put(url, content=body, headers={"Content-Type": "text/csv"})
        mark = sent.raise_for_status().headers["ETag"].strip('"')
        parts.append(sdk.UploadPart(part_number=number, etag=mark))
    source = sdk.CopyPartSource(
        repository=lake.name, ref="main", path=lake.put("small", b"0123456789").path
    )
    copied = api.upload_part_copy_with_http_info(
        *at,
        begun.upload_id,
        "big",
        2,
        sdk.UploadPartCopyFrom(physical_address=address, copy_source=source),
    )
    parts[1] = sdk.UploadPart(part_number=2, etag=copied.headers["ETag"].strip('"'))
    completion = sdk.CompletePresignMultipartUpload(
        physical_address=address, parts=parts, user_metadata={"k": "v"}, content_type="text/csv"
    )
    made = api.complete_presign_multipart_upload(*at, begun.upload_id, "big", completion)
    assert (made.size_bytes, made.metadata) == ((5 << 20) + 10, {"k": "v"})
    assert lake.read("main", "big") == bodies[0] + b"0123456789"
    other = api.create_presign_multipart_upload(*at, path="none", parts=0)
    dropped = sdk.AbortPresignMultipartUpload(physical_address=other.physical_address)
    api.abort_presign_multipart_upload(*at, other.upload_id, "none", dropped)
    with pytest.raises(NotFoundException):
        api.abort_presign_multipart_upload(*at, other.upload_id, "none", dropped)


def test_preparation_for_garbage_collection(lake: Repository) -> None:
    lake.put("committed")
    lake.commit()
    lake.put("staged")
    api = lake.client.internal_api
    page = api.prepare_garbage_collection_uncommitted(lake.name)
    assert page.gc_uncommitted_location.startswith(lake.namespace)
    assert not page.continuation_token
    commits = api.prepare_garbage_collection_commits(lake.name)
    assert commits.gc_commits_location.startswith(lake.namespace)
    task = api.prepare_garbage_collection_commits_async(lake.name)

    status = api.prepare_garbage_collection_commits_status
    done = _done(lambda: status(lake.name, task.id), "completed")
    assert done.result.run_id
    with pytest.raises(ApiException) as wrong:
        api.prepare_garbage_collection_uncommitted(
            lake.name,
            prepare_gc_uncommitted_request=sdk.PrepareGCUncommittedRequest(
                continuation_token="nonsense"
            ),
        )
    assert status_of(wrong) == 400
