"""How messages come into an application and outputs leave it: one package per connector, and what they share.

`base` has the contracts. `kinds` finds, for a config that a user wrote, the connector that it belongs to.
"""
