"""Tasks: what becomes of them is told, also when their process dies."""

from collections.abc import Callable
from typing import Any

import pytest

from lakebed.base.actor import Actor, acting_as, current_actor
from lakebed.base.errors import LakebedError
from lakebed.block import Namespace
from lakebed.engine.errors import Invalid, RepositoryNotFound
from lakebed.engine.model import RepositoryID
from lakebed.engine.refs.dump import dump_refs
from lakebed.formats import DumpID, DumpManifest
from lakebed.kv import OutcomeUnknown, Version
from lakebed.kv.records import Records
from lakebed.lake.catalog import Catalog
from lakebed.lake.errors import TaskNotFound
from lakebed.lake.keys import TASKS
from lakebed.lake.settings import CatalogSettings
from lakebed.lake.tasks import DUMP_REFS, RESTORE_REFS, ReportProgress, TaskID
from tests.kit.lake import MAIN, REPOSITORY, Lake

OTHER = RepositoryID("other")
Work = Callable[[], None]


def catalog(lake: Lake, waiting: list[Work], settings: CatalogSettings | None = None) -> Catalog:
    """A catalog whose tasks wait until someone runs them."""
    return Catalog(
        lake.engine,
        lake.store,
        lake.block,
        lake.clock,
        settings or lake.settings,
        run_in_background=waiting.append,
    )


def test_a_dump_is_restored(lake: Lake) -> None:
    tasks = lake.catalog.tasks
    dumped = tasks.status(REPOSITORY, tasks.start_dump(REPOSITORY), DUMP_REFS)
    assert dumped.done
    assert dumped.error is None
    assert dumped.result is not None
    namespace = lake.repository.namespace
    lake.engine.repositories.delete(REPOSITORY)
    bare = lake.engine.repositories.create_bare(OTHER, namespace)
    restored = tasks.start_restore(OTHER, DumpID(dumped.result))
    assert tasks.status(OTHER, restored, RESTORE_REFS).result == dumped.result
    assert [branch.id for branch in lake.engine.branches.list(bare)] == ["dev", "main"]


def test_only_a_bare_repository_is_restored_into(lake: Lake) -> None:
    with pytest.raises(Invalid, match="is not bare"):
        lake.catalog.tasks.start_restore(REPOSITORY, DumpID("nothing"))


def test_a_task_acts_as_who_began_it(lake: Lake) -> None:
    waiting: list[Work] = []
    found: list[Actor] = []

    def look() -> str:
        found.append(current_actor())
        return "done"

    bea = Actor(user="bea", request_id="id-1")
    with acting_as(bea):
        catalog(lake, waiting).tasks.start(lake.repository, "looking", look)
    waiting.pop()()
    assert found == [bea]
    assert current_actor() == Actor()


def test_a_task_that_fails_says_why(lake: Lake) -> None:
    tasks = lake.catalog.tasks
    place = Namespace.parse(f"{lake.block.scheme}://lake/{OTHER}")
    lake.engine.repositories.create_bare(OTHER, place)
    task_id = tasks.start_restore(OTHER, DumpID("nothing"))
    status = tasks.status(OTHER, task_id, RESTORE_REFS)
    assert status.done
    assert (status.result, status.error_kind) == (None, "missing_file")
    assert status.error is not None
    assert "missing from the storage" in status.error


def test_unexpected_errors_are_recorded_and_raised(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    waiting: list[Work] = []
    tasks = catalog(lake, waiting).tasks

    def break_down(*_arguments: object) -> None:
        raise ZeroDivisionError("by 10.0.0.7")

    monkeypatch.setattr("lakebed.lake.refs.dump_refs", break_down)
    task_id = tasks.start_dump(REPOSITORY)
    with pytest.raises(ZeroDivisionError):
        waiting[0]()
    status = tasks.status(REPOSITORY, task_id, DUMP_REFS)
    assert status.done
    assert status.error is not None
    assert "internal error" in status.error
    assert (
        f"task {task_id} (dump_refs) of repository lake failed: error: by 10.0.0.7" in caplog.text
    )


def test_internal_errors_are_only_in_the_log(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class HiddenError(LakebedError):
        kind = "hidden"
        public_message = "the database does not answer"

    def break_down(*_arguments: object) -> None:
        raise HiddenError("no answer from 10.0.0.7")

    monkeypatch.setattr("lakebed.lake.refs.dump_refs", break_down)
    waiting: list[Work] = []
    tasks = catalog(lake, waiting).tasks
    task_id = tasks.start_dump(REPOSITORY)
    waiting[0]()
    status = tasks.status(REPOSITORY, task_id, DUMP_REFS)
    assert (status.error, status.error_kind) == ("the database does not answer", "hidden")
    assert "no answer from 10.0.0.7" in caplog.text


def test_a_task_that_runs(lake: Lake) -> None:
    waiting: list[Work] = []
    tasks = catalog(lake, waiting).tasks
    task_id = tasks.start_dump(REPOSITORY)
    status = tasks.status(REPOSITORY, task_id, DUMP_REFS)
    assert not status.done
    assert (status.result, status.error) == (None, None)
    waiting[0]()
    assert tasks.status(REPOSITORY, task_id, DUMP_REFS).done


def test_a_task_shows_its_progress_until_it_ends(lake: Lake) -> None:
    tasks, seen = lake.catalog.tasks, list[str | None]()

    def work(tell: ReportProgress) -> str:
        for progress in ("half", "nearly"):
            tell(progress)
            (record,) = Records(lake.store, TASKS, lake.repository.partition).scan()
            shown = tasks.status(REPOSITORY, TaskID(record.name.decode()), "k")
            assert (shown.done, shown.result) == (False, None)
            seen.append(shown.progress)
        return "whole"

    task_id = tasks.start_with_progress(lake.repository, "k", work)
    assert seen == ["half", "nearly"]
    ended = tasks.status(REPOSITORY, task_id, "k")
    assert (ended.done, ended.progress, ended.result) == (True, None, "whole")


def test_a_task_whose_process_died(lake: Lake) -> None:
    tasks = catalog(lake, []).tasks
    task_id = tasks.start_dump(REPOSITORY)
    lake.clock.ahead_seconds += lake.settings.task_heartbeat_seconds + 1
    status = tasks.status(REPOSITORY, task_id, DUMP_REFS)
    assert status.done
    assert status.error_kind == "task_died"


def test_a_long_task_gives_signs_of_life(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting: list[Work] = []
    tasks = catalog(lake, waiting, CatalogSettings(task_heartbeat_seconds=0.4)).tasks
    task_id = tasks.start_dump(REPOSITORY)
    begun = lake.catalog.tasks.status(REPOSITORY, task_id, DUMP_REFS).updated
    beaten = lake.clock.event()
    set_value = lake.store.set

    def note(*args: object, **kwargs: object) -> Version:
        result = set_value(*args, **kwargs)  # type: ignore[arg-type]
        if TASKS.prefix + task_id.encode() in args:
            beaten.set()
        return result

    def dump_when_beaten(*arguments: Any) -> DumpManifest:
        assert beaten.wait(30)
        # By the settings of this one, no pause on a busy machine is long enough to be a death.
        status = lake.catalog.tasks.status(REPOSITORY, task_id, DUMP_REFS)
        assert not status.done
        assert status.updated > begun
        return dump_refs(*arguments)

    monkeypatch.setattr(lake.store, "set", note)
    monkeypatch.setattr("lakebed.lake.refs.dump_refs", dump_when_beaten)
    waiting[0]()
    assert tasks.status(REPOSITORY, task_id, DUMP_REFS).result is not None


def test_the_end_is_noted_in_spite_of_lost_replies(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting: list[Work] = []
    tasks = catalog(lake, waiting).tasks
    task_id = tasks.start_dump(REPOSITORY)
    lost: list[None] = []
    set_value = lake.store.set

    def lose_two(*args: object, **kwargs: object) -> Version:
        if len(lost) < 2:
            lost.append(None)
            raise OutcomeUnknown("lost")
        return set_value(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(lake.store, "set", lose_two)
    waiting[0]()
    assert tasks.status(REPOSITORY, task_id, DUMP_REFS).result is not None


def test_tasks_that_there_are_not(lake: Lake) -> None:
    tasks = lake.catalog.tasks
    with pytest.raises(TaskNotFound, match="task not found: none"):
        tasks.status(REPOSITORY, TaskID("none"), DUMP_REFS)
    with pytest.raises(RepositoryNotFound):
        tasks.start_dump(OTHER)
    task_id = tasks.start_dump(REPOSITORY)
    with pytest.raises(TaskNotFound):
        tasks.status(REPOSITORY, task_id, RESTORE_REFS)


# Cleaning


def test_expired_tasks_of_all_repositories_are_removed(lake: Lake) -> None:
    namespace = Namespace.parse(f"{lake.block.scheme}://lake/{OTHER}")
    other = lake.engine.repositories.create(OTHER, namespace, committer="ann")
    idle = catalog(lake, [])
    for repository in (REPOSITORY, OTHER):
        lake.catalog.tasks.start_dump(repository)
        idle.tasks.start_dump(repository)
        lake.catalog.links.get_physical_address(repository, MAIN, b"a")
    counts = lake.reclaim.expired.run_once()
    assert (counts.repositories, counts.links, counts.tasks) == (2, 0, 0)
    lake.clock.ahead_seconds += lake.settings.task_life_seconds + 10
    lake.catalog.tasks.start_dump(OTHER)
    counts = lake.reclaim.expired.run_once()
    assert (counts.repositories, counts.links, counts.tasks) == (2, 2, 4)
    assert len(list(Records(lake.store, TASKS, other.partition).scan())) == 1


def test_a_lost_reply_leaves_the_rest_to_the_next_pass(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.catalog.tasks.start_dump(REPOSITORY)
    lake.clock.ahead_seconds += lake.settings.task_life_seconds + 10
    with monkeypatch.context() as patch:

        def lose(*_args: object) -> None:
            raise OutcomeUnknown("lost")

        patch.setattr(lake.store, "delete", lose)
        assert lake.reclaim.expired.run_once().uncertain == 1
    assert lake.reclaim.expired.run_once().tasks == 1
