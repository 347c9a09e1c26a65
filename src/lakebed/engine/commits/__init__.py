"""Operations that change a branch's head: commit, merge, revert, cherry-pick, reset.

Imports `lakebed.engine.refs`, `staging` and `committed`. Public: `Committer`, `Merger`, `Resetter`,
and the values of `requests`. See design/0005-commit-protocol.md.
"""
