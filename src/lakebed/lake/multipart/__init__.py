"""Uploads in parts."""
