"""Runs a topology on Spark.

In the order in which a message passes them: `spark.query` (the stages of the application as one streaming query),
`stages` (the code of its tasks), `transport` (how the outputs of a stage get to the next one), `delivery` (to the
sinks). Around them: `plan` (what driver and workers agree on), `directory` (what outlives a run), `spark` (Spark
itself), `query_lifecycle` (Spark's part of a run), `startup` and `run` (a whole run), `metrics`, `failure_kinds` and
`restart_policy` (what to do when something fails).
"""
