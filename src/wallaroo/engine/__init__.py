"""Runs a topology on Spark.

In the order in which a message meets them: `source` (reads the log and runs the first stage, in `stages`), `transport`
(how what a stage puts out gets to the next), `processor` (runs the stages with state), `query` (all of it as one
streaming query), `delivery` (to the sinks, once).
Around them: `plan` (what driver and workers agree on), `directory` (what outlives a run), `spark` (Spark itself),
`batch_size` and `comeback` (how much at a time, and what to do when it fails), `main` (a whole run).
"""
