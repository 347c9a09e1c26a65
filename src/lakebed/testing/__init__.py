"""The kit that proves drivers and protocols right; shipped, so that others can prove theirs."""
