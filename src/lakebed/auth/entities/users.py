"""Users, people and programs that make requests, and groups, users who share policies."""

from lakebed.auth import records_pb2 as pb
from lakebed.auth.entities.base import Entities
from lakebed.auth.errors import GroupNotFound, UserNotFound
from lakebed.auth.model import Group, GroupID, User, UserID
from lakebed.base.runtime import UniqueID, new_unique_id, now_us


class Users(Entities[pb.User, User]):
    """The users of the installation."""

    noun = "user"
    missing = UserNotFound

    def create(self, name: str, *, email: str = "", friendly_name: str = "") -> User:
        message = pb.User(
            unique_id=new_unique_id(self._runtime),
            created_us=now_us(self._runtime),
            email=email,
            friendly_name=friendly_name,
        )
        return self._create(name, message)

    def entity(self, name: str, message: pb.User) -> User:
        return User(
            id=UserID(name),
            unique_id=UniqueID(message.unique_id),
            created_us=message.created_us,
            email=message.email,
            friendly_name=message.friendly_name,
        )


class Groups(Entities[pb.Group, Group]):
    """The groups of the installation."""

    noun = "group"
    missing = GroupNotFound

    def create(self, name: str, *, description: str = "") -> Group:
        """Create a group without members and policies."""
        message = pb.Group(
            unique_id=new_unique_id(self._runtime),
            created_us=now_us(self._runtime),
            description=description,
        )
        return self._create(name, message)

    def entity(self, name: str, message: pb.Group) -> Group:
        return Group(
            id=GroupID(name),
            unique_id=UniqueID(message.unique_id),
            created_us=message.created_us,
            description=message.description,
        )
