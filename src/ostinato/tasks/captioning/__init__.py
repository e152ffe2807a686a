"""A picture or features to a description of it."""
