"""Rules of retention, and passes that expire commits by them."""

import logging
from typing import Final

from lakebed.engine.engine import Engine
from lakebed.engine.errors import RepositoryNotFound
from lakebed.engine.model import MOVED_NAMESPACE, RepositoryID
from lakebed.ids import UniqueID
from lakebed.reclaim.clocks import Clocks
from lakebed.reclaim.expirer import Expirer, Expiry
from lakebed.reclaim.leases import GCLeases
from lakebed.reclaim.retention_rules import RetentionRules, RuleBook
from lakebed.tracing import traced

_LOGGER: Final = logging.getLogger(__name__)


class Retention:
    """For how long the data of commits is kept, in all repositories."""

    def __init__(
        self,
        engine: Engine,
        rules: RuleBook,
        expirer: Expirer,
        leases: GCLeases,
        clocks: Clocks,
    ) -> None:
        self._engine = engine
        self._rules = rules
        self._expirer = expirer
        self._leases = leases
        self._clocks = clocks

    def find_rules(self, repository_id: RepositoryID) -> RetentionRules | None:
        """Return the rules of a repository; None: all commits are kept.

        Raises:
            RepositoryNotFound: There is no such repository.
        """
        return self._rules.find(self._engine.repositories.get(repository_id))

    @traced("catalog.set_retention")
    def set_rules(self, repository_id: RepositoryID, rules: RetentionRules) -> None:
        """Replace the rules of a repository; raises as `find_rules` does."""
        self._rules.set(self._engine.repositories.get(repository_id), rules)
        self._leases.expect_garbage(repository_id)

    @traced("catalog.delete_retention")
    def delete_rules(self, repository_id: RepositoryID) -> None:
        """Remove the rules of a repository, if it has any; raises as `find_rules` does."""
        self._rules.delete(self._engine.repositories.get(repository_id))

    @traced("catalog.expire_commits")
    def expire(
        self,
        repository_id: RepositoryID,
        *,
        unique_id: UniqueID | None = None,
        max_share: float,
        dry_run: bool = False,
    ) -> Expiry:
        """Compare clocks, then make a pass of `lakebed.reclaim.expirer`.

        Every run of garbage collection begins with it, also where no rules are set.

        Raises:
            RepositoryNotFound: There is none, or one with another unique id.
            ClocksDiffer: This server's clock and that of the storage differ by too much.
            TooManyExpire: More than this share of the commits would expire; none has.
            OutcomeUnknown: The store did not answer: ask again.
        """
        repository = self._engine.repositories.get(repository_id)
        if unique_id not in {None, repository.unique_id}:
            raise RepositoryNotFound(repository_id)
        self._clocks.check(repository)
        done = self._expirer.run(repository, max_share=max_share, dry_run=dry_run)
        left_alone = repository.metadata.get(MOVED_NAMESPACE)
        if (done.expired or done.marked) and left_alone and not repository.adopted:
            _LOGGER.warning(
                "commits of repository %s expire, and no object of lakeFS below %s is freed before"
                " `lakebed migrate adopt` has taken them over", repository_id, left_alone,
            )  # fmt: skip
        if done.expired and not dry_run:
            self._leases.expect_garbage(repository_id)
        return done
