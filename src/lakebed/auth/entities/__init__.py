"""The records of users, groups, policies and credentials, and of what belongs to whom."""
