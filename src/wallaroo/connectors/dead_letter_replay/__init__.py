"""The source of replayed dead letters."""
