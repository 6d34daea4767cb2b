"""Accepts bytes from senders, cuts them into messages, keeps them in a durable log until they are processed.

`process` starts and supervises the separate process that does it (`server`), `client` talks to that process,
and `log` is what both sides share: the ingress process appends to it, Spark's workers read it.
"""
