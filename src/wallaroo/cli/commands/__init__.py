"""The commands of `wallaroo`, a module for each."""
