"""The application as plain data: what the builder writes and the engine reads. Knows nothing of Spark."""
