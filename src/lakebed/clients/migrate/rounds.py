"""Rounds: each brings the target repository up to date with lakeFS.

The first round creates the repository, bare and read-only, and migrates the whole history; further
rounds migrate new commits. During the last round, lakeFS must not be written to. Then the
repository becomes writable and is closed to further rounds.

After an interruption at any step, run the round again:

| interrupted                    | state                        | the next round            |
|--------------------------------|------------------------------|---------------------------|
| while creating the repository  | nothing, or the repository   | goes on                   |
| while migrating commits        | some commits, no ref to them | migrates the others       |
| while writing refs             | old and new refs             | writes all refs           |
| while staging changes          | some staged changes          | resets, stages all again  |
| before it becomes writable     | a read-only repository       | makes it writable         |

Protection rules are set after the changes that they would refuse, right before the repository
becomes writable. A rule for all branches is used to freeze lakeFS for the last round
(docs/migration.md). Such a rule would make the repository unusable: it is skipped and reported.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from lakebed.base.actor import Actor, EntryPoint, acting_as
from lakebed.base.errors import quoted
from lakebed.base.runtime import Runtime
from lakebed.block import InvalidAddress, Namespace
from lakebed.clients.migrate.errors import NotATarget, UnreadableAddresses
from lakebed.clients.migrate.history import HistoryMigration, MigrationProgress
from lakebed.clients.migrate.lakefs_source import LakeFSSource, SourceBranch, SourceTag
from lakebed.engine.engine import Engine
from lakebed.engine.errors import CommitNotFound, Invalid, RepositoryNotFound
from lakebed.engine.model import (
    MOVED_NAMESPACE,
    BranchID,
    CommitID,
    Repository,
    RepositoryID,
    TagID,
)
from lakebed.engine.refs.protection import check_pattern
from lakebed.formats import Entry
from lakebed.lake.commits import HeadChanges

MOVED_FROM: Final = "::lakebed::moved-from"
"""Metadata key of a migrated repository for its source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Source and target of a migration."""

    repository: str
    namespace: Namespace
    """Namespace of the new repository's own files and new objects."""
    moved_from: str
    """Readable name of the source, to detect rounds from another source."""
    default_branch: str
    metadata: Mapping[str, str] = field(default_factory=dict)
    protected: Sequence[str] = ()
    """Patterns of protected branches."""


@dataclass
class RoundReport:
    """Result of a round."""

    progress: MigrationProgress = field(default_factory=MigrationProgress)
    branches_set: int = 0
    branches_deleted: int = 0
    tags_set: int = 0
    tags_deleted: int = 0
    staged: int = 0
    left_out: list[str] = field(default_factory=list)
    """Branches, tags and protection rules that could not be migrated, each with the reason."""
    protected: list[str] = field(default_factory=list)
    """Patterns of the protection rules in force."""
    freeze_rules: list[str] = field(default_factory=list)
    """Skipped patterns that protect every branch."""
    is_last: bool = False


def run_round(
    engine: Engine,
    runtime: Runtime,
    source: LakeFSSource,
    plan: Plan,
    *,
    is_last: bool = False,
    with_uncommitted: bool = False,
    on_progress: Callable[[MigrationProgress], None] = lambda _taken: None,
) -> RoundReport:
    """Run a round. Uncommitted changes are migrated in the last round only.

    Raises:
        NotATarget: The repository was not created for this source, or is writable.
        Invalid: The new namespace overlaps with the namespace in lakeFS.
        DamagedTable, DamagedHistory: The source is damaged.
        UnreadableAddresses: The storage cannot read an object.
        OutcomeUnknown: A write may have failed: run the round again.
    """
    _check_not_adopted(engine, source, plan)
    repository = _target(engine, source, plan)
    migration = HistoryMigration(engine, repository, source, runtime)
    for progress in migration.run():
        on_progress(progress)
    report = RoundReport(progress=migration.progress, is_last=is_last)
    _set_tags(engine, repository, source, report)
    _set_branches(engine, repository, source, report)
    if is_last:
        if with_uncommitted:
            _stage(engine, repository, source, report)
        _set_protection(engine, repository, plan, report)
    moved = {MOVED_NAMESPACE: str(source.addresses.namespace)}
    engine.repositories.set_metadata(repository.id, put={**plan.metadata, **moved})
    if is_last:
        # An adoption that missed this repository may have begun after the first check.
        _check_not_adopted(engine, source, plan)
        engine.repositories.set_read_only(repository.id, read_only=False)
    return report


def _check_not_adopted(engine: Engine, source: LakeFSSource, plan: Plan) -> None:
    """Refuse a lake whose objects another repository has adopted and may delete."""
    old = source.addresses.namespace
    for other in engine.repositories.list():
        adopted = other.adopted
        if adopted is not None and other.id != plan.repository and adopted.namespace.overlaps(old):
            raise NotATarget(plan.repository, f"repository {other.id} has adopted its objects")


def _target(engine: Engine, source: LakeFSSource, plan: Plan) -> Repository:
    """Return the target repository; create it if it does not exist."""
    old = source.addresses.namespace
    try:
        found = engine.repositories.get(RepositoryID(plan.repository))
    except RepositoryNotFound:
        if plan.namespace.overlaps(old):
            raise Invalid(
                f"storage namespace {plan.namespace} overlaps with {old}, the namespace of the"
                " repository in lakeFS: choose a namespace outside of it"
            ) from None
        return engine.repositories.create_bare(
            plan.repository,
            plan.namespace,
            default_branch=plan.default_branch,
            read_only=True,
            metadata={**plan.metadata, MOVED_FROM: plan.moved_from, MOVED_NAMESPACE: str(old)},
        )
    moved_from = found.metadata.get(MOVED_FROM)
    if moved_from != plan.moved_from:
        raise NotATarget(plan.repository, "it was not created for this migration")
    if not found.read_only:
        raise NotATarget(plan.repository, "its last round is over, and it is writable")
    return found


def _set_tags(
    engine: Engine, repository: Repository, source: LakeFSSource, report: RoundReport
) -> None:
    wanted = {
        TagID(tag.name): CommitID(tag.commit_id)
        for tag in source.refs.tags()
        if _has_commit(engine, repository, "tag", tag, report)
    }
    for tag in list(engine.tags.list(repository)):
        if wanted.get(tag.id) == tag.commit_id:
            del wanted[tag.id]
            continue
        engine.tags.delete(repository, tag)
        report.tags_deleted += tag.id not in wanted
    for name, commit_id in wanted.items():
        engine.tags.create(repository, name, commit_id, shared=True)
        report.tags_set += 1


def _set_branches(
    engine: Engine, repository: Repository, source: LakeFSSource, report: RoundReport
) -> None:
    wanted = {
        BranchID(branch.name): branch
        for branch in source.refs.branches()
        if _has_commit(engine, repository, "branch", branch, report)
    }
    for current in list(engine.branches.list(repository)):
        branch = wanted.pop(current.id, None)
        if branch is None:
            engine.branches.delete(repository, current.id, known=current)
            report.branches_deleted += 1
        elif branch.commit_id != current.commit_id:
            commit_id = CommitID(branch.commit_id)
            named = engine.branches.change(repository, current, next_commit_id=commit_id)
            engine.marks.check_ref(repository, commit_id)
            engine.branches.change(repository, named, commit_id=commit_id)
            report.branches_set += 1
    for name, branch in wanted.items():
        commit_id = CommitID(branch.commit_id)
        engine.branches.create(repository, name, commit_id, hidden=branch.hidden, shared=True)
        report.branches_set += 1


def _has_commit(
    engine: Engine,
    repository: Repository,
    kind: str,
    ref: SourceBranch | SourceTag,
    report: RoundReport,
) -> bool:
    try:
        engine.commits.get(repository, CommitID(ref.commit_id))
    except CommitNotFound:
        report.left_out.append(f"{kind} {ref.name}: commit {ref.commit_id} is missing")
        return False
    return True


def _stage(
    engine: Engine, repository: Repository, source: LakeFSSource, report: RoundReport
) -> None:
    """Stage lakeFS's uncommitted changes, replacing those of an interrupted round."""
    engine.protection.set(repository, ())  # an interrupted round may have set rules
    there = {branch.id for branch in engine.branches.list(repository)}
    for branch in source.refs.branches():
        name = BranchID(branch.name)
        if name not in there:
            continue
        with acting_as(Actor(entry_point=EntryPoint.MIGRATION, force=True)):
            HeadChanges(engine).reset(repository.id, name)
            for change in source.refs.changes(branch):
                known = engine.readings.to_write(repository.id, name, change.key)
                if change.entry is None:
                    engine.writer.delete(known, change.key)
                else:
                    engine.writer.put(known, _readable(source, branch, change.entry))
                report.staged += 1


def _readable(source: LakeFSSource, branch: SourceBranch, entry: Entry) -> Entry:
    """Return the entry with its canonical address; raises `UnreadableAddresses`."""
    try:
        return replace(entry, address=source.addresses.canonical(entry.address))
    except InvalidAddress as error:
        refused = f"{quoted(entry.key)} has the address {entry.address!r}: {error}"
        raise UnreadableAddresses(f"branch {branch.name}", [refused]) from error


def _set_protection(
    engine: Engine, repository: Repository, plan: Plan, report: RoundReport
) -> None:
    """Set the protection rules, without rules for all branches."""
    for pattern in plan.protected:
        if set(pattern) == {"*"}:
            report.freeze_rules.append(pattern)
            continue
        try:
            check_pattern(pattern)
        except Invalid as error:
            report.left_out.append(f"protection rule {pattern}: {error}")
        else:
            report.protected.append(pattern)
    engine.protection.set(repository, report.protected)
