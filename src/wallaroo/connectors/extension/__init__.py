"""Extensions: sources and sinks whose other half is a script that users write with `wallaroo.experimental`."""
