"""The commands: `machida` runs an application, `wallaroo` provides the tools around it."""
