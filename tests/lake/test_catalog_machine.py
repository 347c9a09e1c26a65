"""The catalog, one operation after another, against plain dicts."""

import hashlib
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from lakebed.engine.commits.requests import CommitRequest
from lakebed.engine.committed import CommonPrefix, EntryQuery
from lakebed.engine.errors import EntryNotFound, NoChanges, PreconditionFailed
from lakebed.engine.model import BranchID
from lakebed.engine.staging.writer import if_absent
from lakebed.lake.commits import HeadChanges
from lakebed.lake.model import ObjectStats
from tests.kit.lake import DEV, MAIN, REPOSITORY, open_lake

PATHS = [b"a", b"a/b", b"a/c", b"d", b"\xc3\xa9/\x00x"]
paths = st.sampled_from(PATHS)
branches = st.sampled_from([MAIN, DEV])
bodies = st.sampled_from(["", "x", "y", "z" * 100])
metadatas = st.sampled_from([{}, {"k": "v"}])

# Content and the user's metadata.
Object = tuple[str, tuple[tuple[str, str], ...]]


class CatalogMachine(RuleBasedStateMachine):
    """Drives the catalog and the model side by side."""

    kind = "memory"

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        folder = self.stack.enter_context(TemporaryDirectory())
        self.lake = self.stack.enter_context(open_lake(self.kind, Path(folder)))
        self.catalog = self.lake.catalog
        self.shown: dict[BranchID, dict[bytes, Object]] = {MAIN: {}, DEV: {}}
        self.committed: dict[BranchID, dict[bytes, Object]] = {MAIN: {}, DEV: {}}

    def teardown(self) -> None:
        self.stack.close()

    @rule(branch=branches, path=paths, body=bodies, metadata=metadatas)
    def upload(self, branch: BranchID, path: bytes, body: str, metadata: dict[str, str]) -> None:
        chunks = [character.encode() for character in body]
        self.catalog.uploads.upload(REPOSITORY, branch, path, chunks, metadata=metadata)
        self.shown[branch][path] = (body, tuple(metadata.items()))

    @rule(branch=branches, path=paths, body=bodies)
    def create(self, branch: BranchID, path: bytes, body: str) -> None:
        def act() -> None:
            self.catalog.uploads.upload(
                REPOSITORY, branch, path, [body.encode()], condition=if_absent
            )

        if path in self.shown[branch]:
            with pytest.raises(PreconditionFailed):
                act()
        else:
            act()
            self.shown[branch][path] = (body, ())

    @rule(branch=branches, path=paths, body=bodies)
    def link(self, branch: BranchID, path: bytes, body: str) -> None:
        given = self.catalog.links.get_physical_address(REPOSITORY, branch, path)
        self.lake.block.put(given.address, [body.encode()])
        checksum = hashlib.md5(body.encode()).hexdigest()
        for _ in range(2):
            self.catalog.links.link(REPOSITORY, branch, path, given.address, checksum=checksum)
        self.shown[branch][path] = (body, ())

    @rule(branch=branches, path=paths)
    def delete(self, branch: BranchID, path: bytes) -> None:
        self.catalog.objects.delete(REPOSITORY, branch, path)
        self.shown[branch].pop(path, None)

    @rule(branch=branches, some=st.lists(paths, max_size=4))
    def delete_many(self, branch: BranchID, some: list[bytes]) -> None:
        assert self.catalog.objects.delete_many(REPOSITORY, branch, some) == []
        for path in some:
            self.shown[branch].pop(path, None)

    @rule(source=branches, branch=branches, source_path=paths, path=paths)
    def copy(self, source: BranchID, branch: BranchID, source_path: bytes, path: bytes) -> None:
        def act() -> None:
            self.catalog.copies.copy(
                REPOSITORY, branch, path, source_ref=source, source_path=source_path
            )

        found = self.shown[source].get(source_path)
        if found is None:
            with pytest.raises(EntryNotFound):
                act()
        else:
            act()
            self.shown[branch][path] = found

    @rule(branch=branches, path=paths, metadata=metadatas)
    def set_metadata(self, branch: BranchID, path: bytes, metadata: dict[str, str]) -> None:
        found = self.shown[branch].get(path)
        if found is None:
            with pytest.raises(EntryNotFound):
                self.catalog.copies.set_metadata(REPOSITORY, branch, path, metadata)
        else:
            self.catalog.copies.set_metadata(REPOSITORY, branch, path, metadata)
            self.shown[branch][path] = (found[0], tuple(metadata.items()))

    @rule(branch=branches)
    def commit(self, branch: BranchID) -> None:
        request = CommitRequest(committer="ann", message="m")
        if self.shown[branch] == self.committed[branch]:
            with pytest.raises(NoChanges):
                HeadChanges(self.lake.engine).commit(REPOSITORY, branch, request)
        else:
            HeadChanges(self.lake.engine).commit(REPOSITORY, branch, request)
            self.committed[branch] = dict(self.shown[branch])

    @rule(branch=branches)
    def reset(self, branch: BranchID) -> None:
        HeadChanges(self.lake.engine).reset(REPOSITORY, branch)
        self.shown[branch] = dict(self.committed[branch])

    @rule(seconds=st.sampled_from([1800, 7200, 100_000]))
    def wait(self, seconds: float) -> None:
        """Objects grow old, so that copies stop sharing addresses."""
        self.lake.clock.ahead_seconds += seconds

    @rule(branch=branches)
    def list_folders(self, branch: BranchID) -> None:
        page = self.catalog.objects.list_objects(REPOSITORY, branch, EntryQuery(delimiter=b"/"))
        found = [i.key if isinstance(i, CommonPrefix) else i.path for i in page.items]
        folded = {path.partition(b"/")[0] + (b"/" if b"/" in path else b"") for path in PATHS}
        wanted = {
            name
            for name in folded
            for path in self.shown[branch]
            if (path.startswith(name) if name.endswith(b"/") else path == name)
        }
        assert found == sorted(wanted)

    @invariant()
    def everything_is_shown(self) -> None:
        for ref, expected in self.expected().items():
            page = self.catalog.objects.list_objects(REPOSITORY, ref, EntryQuery())
            found = [item for item in page.items if isinstance(item, ObjectStats)]
            assert [item.path for item in found] == sorted(expected)
            for item in found:
                body, metadata = expected[item.path]
                with self.catalog.objects.read(item) as stream:
                    assert b"".join(stream).decode() == body
                assert item.size == len(body)
                assert item.checksum == hashlib.md5(body.encode()).hexdigest()
                assert item.metadata == dict(metadata)
                # Of equal objects, one staged and one committed, either may be shown.
                stats = self.catalog.objects.stat(REPOSITORY, ref, item.path)
                assert replace(stats, location=item.address, mtime=item.mtime) == item

    def expected(self) -> dict[str, dict[bytes, Object]]:
        branches = {str(branch): shown for branch, shown in self.shown.items()}
        return branches | {f"{branch}@": held for branch, held in self.committed.items()}


@pytest.mark.parametrize(("kind", "share"), [("memory", 2), ("disk", 10)])
def test_the_catalog_agrees_with_plain_dicts(
    kind: str, share: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CatalogMachine, "kind", kind)
    # Runs are long: a share of the examples that other properties get.
    examples = settings.default.max_examples // share if settings.default else 1
    run_state_machine_as_test(
        CatalogMachine,
        settings=settings(max_examples=examples, stateful_step_count=30),
    )
