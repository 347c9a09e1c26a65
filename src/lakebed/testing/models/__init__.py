"""Small models that the real code is compared with."""
