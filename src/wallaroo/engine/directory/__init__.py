"""The directory of an application: ownership, locking, layout, commits, and what a run resumes from."""
