"""Policies: named lists of allowing and denying statements."""

import logging
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from lakebed.auth import records_pb2 as pb
from lakebed.auth.entities.base import TRIES, Entities
from lakebed.auth.errors import AuthTooManyTries, PolicyNotFound
from lakebed.auth.model import Effect, Policy, PolicyID, Statement
from lakebed.auth.policy.statements import check_new_statements
from lakebed.base.runtime import UniqueID, new_unique_id, now_us
from lakebed.kv import PredicateFailed

_LOGGER: Final = logging.getLogger(__name__)
_EFFECTS: Final = {
    Effect.ALLOW: pb.POLICY_EFFECT_ALLOW,
    Effect.DENY: pb.POLICY_EFFECT_DENY,
}


class Policies(Entities[pb.Policy, Policy]):
    """The policies of the installation.

    Raises:
        InvalidPolicy: A statement is malformed.
    """

    noun = "policy"
    missing = PolicyNotFound

    def create(self, name: str, statements: Iterable[Statement]) -> Policy:
        """Create a policy, not attached yet."""
        message = pb.Policy(
            unique_id=new_unique_id(self._runtime),
            created_us=now_us(self._runtime),
            statements=statement_messages(statements),
        )
        return self._create(name, message)

    def update(self, name: str, statements: Iterable[Statement]) -> Policy:
        """Replace the statements of a policy; its attachments stay."""
        messages = statement_messages(statements)
        try:
            for _ in range(TRIES):
                record = self.live(name)
                del record.message.statements[:]
                record.message.statements.extend(messages)
                with suppress(PredicateFailed):
                    self._records.set_if(record.name, record.message, record.predicate)
                    _LOGGER.info("policy %s was changed", name)
                    return self.entity(name, record.message)
        finally:
            self._changed()
        raise AuthTooManyTries(f"updating policy {name}", TRIES)

    def entity(self, name: str, message: pb.Policy) -> Policy:
        return Policy(
            id=PolicyID(name),
            unique_id=UniqueID(message.unique_id),
            created_us=message.created_us,
            statements=tuple(_statement(statement) for statement in message.statements),
        )


def statement_messages(statements: Iterable[Statement]) -> list[pb.PolicyStatement]:
    """Return the stored form of the statements of a policy."""
    return [
        pb.PolicyStatement(
            effect=_EFFECTS[statement.effect],
            actions=statement.actions,
            resource=statement.resource,
            conditions=[
                pb.PolicyCondition(operator=operator, field=field, values=values)
                for operator, fields in statement.condition.items()
                for field, values in fields.items()
            ],
        )
        for statement in check_new_statements(statements)
    ]


def _statement(message: pb.PolicyStatement) -> Statement:
    condition: dict[str, dict[str, tuple[str, ...]]] = {}
    for part in message.conditions:
        condition.setdefault(part.operator, {})[part.field] = tuple(part.values)
    return Statement(
        # An unknown effect of a newer version must not allow anything.
        effect=Effect.ALLOW if message.effect == pb.POLICY_EFFECT_ALLOW else Effect.DENY,
        actions=tuple(message.actions),
        resource=message.resource,
        condition=condition,
    )
