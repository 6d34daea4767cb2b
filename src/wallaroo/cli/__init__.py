"""The commands: `machida` runs an application, `wallaroo` has the tools around it."""
