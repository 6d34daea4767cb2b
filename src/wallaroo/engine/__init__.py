"""Runs a topology on Spark.

In the order in which a message meets them: `source` (reads the log and runs the first stage), `outbox` (what a
stage puts out), `chunks` (how it travels), `processor` (the stages with state), `state` (live objects and their durable
log), `query` (all of it as one streaming query), `egress` (to the sinks, once).
Around them: `plan` and `shipping` (what workers get), `steps` (what a step does), `session` and `java` (Spark itself),
`home` (the directory of an application), `going_on` (what the last run has left in it), `preflight` (what is looked at
before anything is started), `main` (a whole run).
"""
