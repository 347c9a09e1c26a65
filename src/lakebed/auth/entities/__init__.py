"""The records of users, groups, policies and access keys, and of how they are related."""
