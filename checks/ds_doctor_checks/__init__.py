"""The built-in checks, a plugin like any other: one subject a module, pure functions over facts."""

BY_FAMILY = (
    True  # a module is called by its family, or begins with its name: one family can be loaded without the others
)

# What the checks of a launch command import once there is one: of any engine, and of one.
_ANY = ("_environment", "_memory_host", "_memory_verdict", "_model_split", "_options")
AHEAD = {"vllm": (*_ANY, "_launch_vllm"), "sglang": (*_ANY, "_launch_sglang")}
