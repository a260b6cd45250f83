"""ds-doctor: a preflight doctor for hosts that serve large language models on NVIDIA GPUs."""

__version__ = "0.1.0"
