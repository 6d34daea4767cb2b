"""The directory of an application: what a run finds there, puts in order and leaves behind."""
