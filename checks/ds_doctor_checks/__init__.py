"""The built-in checks, a plugin like any other: one subject a module, pure functions over facts."""

# What the checks of a launch command import once there is one: of any engine, and of one.
_ANY = ("_environment", "_memory_host", "_memory_verdict", "_model_split", "_options")
AHEAD = {"vllm": (*_ANY, "_launch_vllm"), "sglang": (*_ANY, "_launch_sglang")}
