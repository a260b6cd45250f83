"""The built-in checks, a plugin like any other: one subject a module, pure functions over facts."""
