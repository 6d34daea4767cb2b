"""What the original had beside its API, for scripts that use it."""
