"""What every request needs, whichever door it goes to."""
