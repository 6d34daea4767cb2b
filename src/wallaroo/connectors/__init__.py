"""How messages enter an application and outputs leave it: one package per connector, and what they share.

`base` has the contracts. `registry` finds the connector for a config that a user has written.
"""
