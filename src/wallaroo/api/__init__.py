"""The words users write: decorators, configs, argument parsers and the builder. Users import `wallaroo`."""
