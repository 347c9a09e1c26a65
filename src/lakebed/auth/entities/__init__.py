"""Records of users, groups, policies and access keys, and relations between them.

Imports `lakebed.kv`. Public for `lakebed.auth` alone.
"""
