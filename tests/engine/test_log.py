from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.engine.committed import Breaks
from lakebed.engine.errors import CommitNotFound
from lakebed.engine.model import Commit, CommitID
from lakebed.engine.refs.log import History, LogPage, LogQuery
from lakebed.formats import AddressType, Entry, entries_table
from tests.engine.histories import NO_METARANGE, RUNTIME, HistoryKit, Shape, ancestry, shapes


class Log(HistoryKit):
    def __init__(self, *, breaks: Breaks | None = None) -> None:
        super().__init__(breaks=breaks)
        self.history = History(self.commits, RUNTIME)

    def log(self, head: Commit, query: LogQuery) -> list[Commit]:
        return list(self.history.log(self.repository, self.committed(), head.id, query))


def in_order(commits: Iterable[Commit]) -> list[Commit]:
    return sorted(commits, key=lambda each: (-each.generation, -each.created_us, each.id))


@given(shapes())
def test_every_ancestor_once_children_first(history: list[Shape]) -> None:
    world = Log()
    commits = world.build(history)
    reached = ancestry(commits)[commits[-1].id]
    walked = world.log(commits[-1], LogQuery())
    assert walked == in_order(commit for commit in commits if commit.id in reached)
    places = {commit.id: place for place, commit in enumerate(walked)}
    for commit in walked:
        assert all(places[parent] > places[commit.id] for parent in commit.parents)


@given(shapes())
def test_the_line_of_first_parents(history: list[Shape]) -> None:
    world = Log()
    commits = world.build(history)
    by_id = {commit.id: commit for commit in commits}
    line = [commits[-1]]
    while line[-1].parents:
        line.append(by_id[line[-1].parents[0]])
    assert world.log(line[0], LogQuery(first_parent=True)) == line


@given(shapes(), st.data())
def test_a_log_stops_at_a_commit(history: list[Shape], data: st.DataObject) -> None:
    world = Log()
    commits = world.build(history)
    stop = data.draw(st.sampled_from(commits))
    reached = ancestry(commits)
    shown = set(reached[commits[-1].id])
    if stop.id in shown:
        shown -= reached[stop.id] - {stop.id}
    found = world.log(commits[-1], LogQuery(stop_at=stop.id))
    assert found == in_order(commit for commit in commits if commit.id in shown)


@given(shapes(), st.integers(0, 5))
def test_a_log_since_a_date(history: list[Shape], since_us: int) -> None:
    world = Log()
    commits = world.build(history)
    shown = {commits[-1].id} if commits[-1].created_us >= since_us else set()
    for commit in reversed(commits):
        if commit.id in shown:
            parents = [each for each in commits if each.id in commit.parents]
            shown |= {each.id for each in parents if each.created_us >= since_us}
    found = world.log(commits[-1], LogQuery(since_us=since_us))
    assert found == in_order(commit for commit in commits if commit.id in shown)


@given(shapes(), st.booleans(), st.integers(1, 7))
def test_pages_add_up_to_the_log(history: list[Shape], first_parent: bool, amount: int) -> None:
    world = Log()
    head = world.build(history)[-1]
    whole = world.log(head, LogQuery(first_parent=first_parent))
    gathered: list[Commit] = []
    for _ in range(len(whole)):
        after = gathered[-1].id if gathered else None
        query = LogQuery(first_parent=first_parent, after=after)
        page = world.history.page(
            world.repository, world.committed(), head.id, query, amount=amount
        )
        gathered += page.commits
        if not page.has_more:
            break
        assert len(page.commits) == amount
    assert gathered == whole


def test_a_log_ends_behind_the_commit_it_stops_at_on_every_page() -> None:
    world = Log()
    root = world.commit()
    stop = world.commit(root)
    head = world.commit(stop)
    for first_parent in (True, False):
        query = LogQuery(first_parent=first_parent, stop_at=stop.id, after=stop.id)
        assert world.log(head, query) == []


def test_a_page_need_not_look_whether_others_follow() -> None:
    world = Log()
    head = world.commit(world.commit())
    args = (world.repository, world.committed(), head.id, LogQuery())
    assert world.history.page(*args, amount=1).has_more
    assert not world.history.page(*args, amount=1, look_ahead=False).has_more
    assert world.history.page(*args, amount=1, look_ahead=False).commits == (head,)


def test_a_log_from_a_commit_that_is_not_there() -> None:
    world = Log()
    with pytest.raises(CommitNotFound):
        list(world.history.log(world.repository, world.committed(), CommitID("0" * 64), LogQuery()))


# Logs of objects


def rows(contents: Mapping[bytes, int]) -> list[Entry]:
    return [
        Entry(
            key=key,
            identity=b"identity %d" % content,
            address=f"object-{content}",
            address_type=AddressType.RELATIVE,
            size=content,
            checksum="",
            mtime=datetime(2024, 1, 1, tzinfo=UTC),
            content_type="",
            metadata={},
        )
        for key, content in sorted(contents.items())
    ]


KEYS = [b"a", b"a/1", b"a/2", b"a0", b"b", b"b/1", b"c/x/1", b"c/x/2", b"\xff\xff"]
CONTENTS = st.dictionaries(st.sampled_from(KEYS), st.integers(0, 1))
NAMES = st.lists(st.sampled_from([*KEYS, b"c/", b"c/x", b"\xff", b"none"]), max_size=2)


@pytest.mark.slow
@given(shapes(max_size=8), st.lists(CONTENTS, min_size=8, max_size=8), NAMES, NAMES)
def test_a_log_of_objects_and_prefixes(
    history: list[Shape],
    contents: list[dict[bytes, int]],
    keys: list[bytes],
    prefixes: list[bytes],
) -> None:
    world = Log(breaks=Breaks(mean_rows=2))
    committed = world.committed()
    made: list[Commit] = []
    held: dict[CommitID, dict[bytes, int]] = {}
    for shape, content in zip(history, contents, strict=False):
        # Both forms of no entries: an empty metarange, and none.
        empty = not content and shape.created_us % 2 == 0
        metarange_id = NO_METARANGE if empty else committed.write([entries_table(rows(content))])
        parents = [made[place] for place in shape.parents]
        commit = world.commit(*parents, metarange_id=metarange_id, created_us=shape.created_us)
        made.append(commit)
        held[commit.id] = content

    def changed(commit: Commit) -> bool:
        if len(commit.parents) != 1:
            return False
        now, before = held[commit.id], held[commit.parents[0]]
        return any(
            now.get(key) != before.get(key)
            for key in KEYS
            if key in keys or any(key.startswith(prefix) for prefix in prefixes)
        )

    reached = ancestry(made)[made[-1].id]
    found = world.log(made[-1], LogQuery(keys=tuple(keys), prefixes=tuple(prefixes)))
    everything = not keys and not prefixes
    assert found == in_order(
        commit for commit in made if commit.id in reached and (everything or changed(commit))
    )


def test_a_log_of_an_object_names_the_commit_that_changed_it_and_not_the_merge() -> None:
    world = Log()
    committed = world.committed()
    without, having = (committed.write([entries_table(rows(each))]) for each in ({}, {b"a": 1}))
    root = world.commit(metarange_id=without)
    change = world.commit(root, metarange_id=having)
    ours = world.commit(root, metarange_id=without)
    merge = world.commit(ours, change, metarange_id=having)
    assert world.log(merge, LogQuery(keys=(b"a",))) == [change]
    # Nor is the first commit listed, since it has no parent to compare with.
    first = world.commit(metarange_id=having)
    assert world.log(first, LogQuery(prefixes=(b"a",))) == []


@pytest.mark.slow
def test_a_log_of_one_object_reads_few_ranges() -> None:
    """Of 200 commits over 100,000 entries, only changes of the object's range are read."""
    world = Log(breaks=Breaks(mean_rows=1000))
    committed = world.committed()
    path = "data/{:06}".format
    contents = {path(number).encode(): 0 for number in range(100_000)}
    metarange_id = committed.write([entries_table(rows(contents))])
    head = world.commit(metarange_id=metarange_id)
    expected: list[Commit] = []
    for number in range(1, 201):
        wanted = number % 50 == 0
        key = path(50_000 if wanted else number * 7919 % 100_000).encode()
        changes = entries_table(rows({key: number})).append_column("tombstone", [[False]])
        applied = committed.apply(head.metarange_id, [changes])
        head = world.commit(head, metarange_id=applied.metarange_id)
        if wanted:
            expected.insert(0, head)

    fresh = world.committed()
    keys = LogQuery(keys=(path(50_000).encode(),))
    assert list(world.history.log(world.repository, fresh, head.id, keys)) == expected
    assert fresh.counters.metaranges_read == 201
    assert fresh.counters.ranges_read <= 12


def test_memory_holds_many_small_commits_and_few_large_ones() -> None:
    world = Log()

    def add(message: str) -> Commit:
        return world.commits.add(
            world.repository,
            committer="",
            message=message,
            metarange_id=NO_METARANGE,
            parents=[],
            metadata={},
        )

    def is_held(commit: Commit) -> bool:
        return world.commits.get(world.repository, commit.id) is commit

    def page(commit: Commit) -> LogPage:
        committed = world.committed()
        return world.history.page(world.repository, committed, commit.id, LogQuery(), amount=1)

    first, *rest = [add("small") for _ in range(50)]
    shown = page(first)
    assert is_held(first)
    assert page(first) is shown
    large = [add("large" * 200_000) for _ in range(25)]
    assert is_held(large[-1])
    assert not any(map(is_held, [*rest, large[0]]))
    for commit in large:
        page(commit)
    assert page(first) is not shown
