"""Runs a topology on Spark.

In the order in which a message meets them: `query` (the stages of the application as one streaming query), `stages`
(what its tasks do), `transport` (how what a stage puts out gets to the next), `delivery` (to the sinks, once).
Around them: `plan` (what driver and workers agree on), `directory` (what outlives a run), `spark` (Spark itself),
`processing` (Spark's part of a run), `starting` and `run` (a whole run), `counts` (what a run counts), `failure` and
`comeback` (what to do when something fails).
"""
