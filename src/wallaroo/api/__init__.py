"""The user's API: decorators, configs, argument parsers and the builder. Users import `wallaroo`."""
