"""The application is a program of its own, which machida imports and not the test runner."""

collect_ignore = ["apps"]
