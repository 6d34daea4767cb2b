"""The application as plain data: written by the builder, read by the engine. Independent of Spark."""
