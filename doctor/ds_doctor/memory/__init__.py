"""Will it fit: arithmetic from a model's config.json to the memory of each GPU. It reads nothing, asks nobody, imports no probe.

read.architecture(config) -> weights.weights(...) and kv.cache(...) -> plan.plan(...). Sizes are bytes unless the name says otherwise.
"""
