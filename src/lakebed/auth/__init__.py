"""Users, groups, policies and credentials, in the key-value store."""
