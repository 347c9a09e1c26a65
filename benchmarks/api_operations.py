"""What to ask of each operation of the API, again and again: `{n}` is the number of the request."""

import json
from typing import Any, Final, NamedTuple

API: Final = "/api/v1"
REPOSITORY: Final = f"{API}/repositories/bench"
BRANCH: Final = f"{REPOSITORY}/branches/main"
REF: Final = f"{REPOSITORY}/refs/main"
OBJECT: Final = "path=data/0/000000"
STATEMENT: Final = {"effect": "allow", "resource": "*", "action": ["fs:ReadObject"]}


class Operation(NamedTuple):
    """A request, or a kind of requests, that succeeds however often it is made."""

    method: str
    target: str
    body: Any = None
    alone: bool = False
    """Whether all requests swap one record, so that of many at a time most would try again."""

    def at(self, number: int) -> tuple[str, str, bytes]:
        """Return the request of some number: method, target and body."""
        body = b"" if self.body is None else json.dumps(self.body).encode()
        mark = str(number)
        return (
            self.method,
            self.target.replace("{n}", mark),
            body.replace(b"{n}", mark.encode()),
        )


# In this order: what one makes, a later one reads. Those that delete what is deleted once and for
# all, or make repositories, are not among them.
OPERATIONS: Final = {
    "healthCheck": Operation("GET", f"{API}/healthcheck"),
    "getConfig": Operation("GET", f"{API}/config"),
    "getSetupState": Operation("GET", f"{API}/setup_lakefs"),
    "getCurrentUser": Operation("GET", f"{API}/user"),
    "listRepositories": Operation("GET", f"{API}/repositories"),
    "getRepository": Operation("GET", REPOSITORY),
    "getRepositoryMetadata": Operation("GET", f"{REPOSITORY}/metadata"),
    "setRepositoryMetadata": Operation(
        "POST", f"{REPOSITORY}/metadata", {"metadata": {"owner": "{n}"}}, alone=True
    ),
    "getBranchProtectionRules": Operation("GET", f"{REPOSITORY}/settings/branch_protection"),
    "createBranch": Operation("POST", f"{REPOSITORY}/branches", {"name": "b{n}", "source": "main"}),
    "listBranches": Operation("GET", f"{REPOSITORY}/branches?amount=100"),
    "getBranch": Operation("GET", BRANCH),
    "createTag": Operation("POST", f"{REPOSITORY}/tags", {"id": "t{n}", "ref": "main"}),
    "listTags": Operation("GET", f"{REPOSITORY}/tags?amount=100"),
    "getTag": Operation("GET", f"{REPOSITORY}/tags/t0"),
    "getCommit": Operation("GET", f"{REPOSITORY}/commits/main"),
    "logCommits": Operation("GET", f"{REF}/commits"),
    # On a branch of its own: the first commit to main would have all that was uploaded before.
    "commit (empty)": Operation(
        "POST",
        f"{REPOSITORY}/branches/empty/commits",
        {"message": "m", "allow_empty": True},
        alone=True,
    ),
    "mergeIntoBranch (empty)": Operation(
        "POST", f"{REF}/merge/dev", {"message": "m", "allow_empty": True}, alone=True
    ),
    "findMergeBase": Operation("GET", f"{REF}/merge/dev"),
    "diffRefs": Operation("GET", f"{REF}/diff/dev"),
    "diffBranch": Operation("GET", f"{BRANCH}/diff"),
    "statObject": Operation("GET", f"{REF}/objects/stat?{OBJECT}"),
    "getObject": Operation("GET", f"{REF}/objects?{OBJECT}"),
    "headObject": Operation("HEAD", f"{REF}/objects?{OBJECT}"),
    "getUnderlyingProperties": Operation("GET", f"{REF}/objects/underlyingProperties?{OBJECT}"),
    "listObjects (100)": Operation("GET", f"{REF}/objects/ls?amount=100"),
    "copyObject": Operation(
        "POST", f"{BRANCH}/objects/copy?dest_path=copies/{{n}}", {"src_path": "data/0/000000"}
    ),
    "updateObjectUserMetadata": Operation(
        "PUT",
        f"{BRANCH}/objects/stat/user_metadata?{OBJECT}",
        {"set": {"colour": "{n}"}},
        alone=True,
    ),
    "getPhysicalAddress": Operation("GET", f"{BRANCH}/staging/backing?path=linked/{{n}}"),
    "deleteObject": Operation("DELETE", f"{BRANCH}/objects?path=copies/{{n}}"),
    "deleteObjects (2)": Operation(
        "POST", f"{BRANCH}/objects/delete", {"paths": ["copies/{n}", "others/{n}"]}
    ),
    "resetBranch": Operation("PUT", BRANCH, {"type": "reset"}, alone=True),
    "createUser": Operation("POST", f"{API}/auth/users", {"id": "u{n}"}),
    "listUsers": Operation("GET", f"{API}/auth/users?amount=100"),
    "getUser": Operation("GET", f"{API}/auth/users/u0"),
    "createGroup": Operation("POST", f"{API}/auth/groups", {"id": "g{n}"}),
    "listGroups": Operation("GET", f"{API}/auth/groups?amount=100"),
    "createPolicy": Operation(
        "POST", f"{API}/auth/policies", {"id": "p{n}", "statement": [STATEMENT]}
    ),
    "listPolicies": Operation("GET", f"{API}/auth/policies?amount=100"),
    "getPolicy": Operation("GET", f"{API}/auth/policies/p0"),
}
