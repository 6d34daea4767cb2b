"""Accepts bytes from senders, splits them into messages, and keeps them in a durable log until they are processed.

`process` starts and supervises the separate process that does this (`server`), `client` talks to that process,
and `log` is shared by both sides: the ingress process appends to it, Spark's workers read it.
"""
