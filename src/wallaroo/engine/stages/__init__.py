"""What runs in Spark's Python workers: the steps of an application, one stage after the other."""
