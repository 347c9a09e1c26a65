"""Objects of repositories: uploads, listings, copies, links; what every door calls."""
