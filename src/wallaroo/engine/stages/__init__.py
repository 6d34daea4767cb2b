"""The code that runs in Spark's Python workers: the steps of an application, stage by stage."""
