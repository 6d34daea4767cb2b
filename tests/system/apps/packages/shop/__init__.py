"""A package that is installed somewhere, with an application in it."""
