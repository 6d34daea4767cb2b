"""A module that is imported when a message comes."""
