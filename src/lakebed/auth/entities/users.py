"""Users: people and programs that make requests."""

from lakebed.auth import records_pb2 as pb
from lakebed.auth.entities.base import Entities
from lakebed.auth.errors import UserNotFound
from lakebed.auth.model import User, UserID
from lakebed.base.ids import UniqueID, new_unique_id


class Users(Entities[pb.User, User]):
    """The users of the installation."""

    noun = "user"

    def create(self, name: str, *, email: str = "", friendly_name: str = "") -> User:
        """Create a user without permissions."""
        message = pb.User(
            unique_id=new_unique_id(self._runtime),
            created_us=self._now_us(),
            email=email,
            friendly_name=friendly_name,
        )
        return self._create(name, message)

    def missing(self, name: str) -> UserNotFound:
        return UserNotFound(name)

    def entity(self, name: str, message: pb.User) -> User:
        return User(
            id=UserID(name),
            unique_id=UniqueID(message.unique_id),
            created_us=message.created_us,
            email=message.email,
            friendly_name=message.friendly_name,
        )
