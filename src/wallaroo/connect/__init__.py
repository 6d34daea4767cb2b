"""Scripts that connect applications with other systems, ready to be run: `wallaroo connect NAME`.

Each module is one script, over the public classes of `wallaroo.experimental`, and an example of how to write one: a
copy of it works, as does `python -m wallaroo.connect.NAME`. What all of them share, the options and how they end, is in
`script`; `messages` turns what other systems have into messages, and back.
"""
