"""The built-in checks, a plugin like any other: one subject a module, pure functions over facts."""

# What the checks of a launch command import once there is one.
AHEAD = ("_options", "_memory_verdict", "_memory_host", "_model_split", "_environment")
