"""Groups: users who share policies."""

from lakebed.auth import records_pb2 as pb
from lakebed.auth.entities.base import Entities
from lakebed.auth.errors import GroupNotFound
from lakebed.auth.model import Group, GroupID
from lakebed.base.ids import UniqueID, new_unique_id


class Groups(Entities[pb.Group, Group]):
    """The groups of the installation."""

    noun = "group"

    def create(self, name: str, *, description: str = "") -> Group:
        """Create a group without members and policies."""
        message = pb.Group(
            unique_id=new_unique_id(self._runtime),
            created_us=self._now_us(),
            description=description,
        )
        return self._create(name, message)

    def missing(self, name: str) -> GroupNotFound:
        return GroupNotFound(name)

    def entity(self, name: str, message: pb.Group) -> Group:
        return Group(
            id=GroupID(name),
            unique_id=UniqueID(message.unique_id),
            created_us=message.created_us,
            description=message.description,
        )
