"""Moving in from lakeFS: its table files, its refs, and the history that comes of them."""
