"""The commands of `wallaroo`, one module each."""
