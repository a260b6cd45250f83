"""Whether the flags that matter are known, or filled in only when the command runs; it looks at nothing else."""

from __future__ import annotations

from ds_doctor.api import Undecided

from ._options import Options

# Flags that change nothing of what is judged of the model, the GPUs and the memory, or that are judged without them.
_BESIDE = frozenset(
    (
        *(
            "host",
            "port",
            "uds",
            "served_model_name",
            "api_key",
            "root_path",
            "download_dir",
            "chat_template",
            "revision",
        ),
        *("hf_token", "ssl_keyfile", "ssl_certfile", "uvicorn_log_level", "log_level", "master_addr", "master_port"),
        *("dist_init_addr", "node_rank", "model", "model_tag", "model_path", "tokenizer", "tokenizer_path"),
    )
)


_NUMBERS = frozenset(("port", "master_port", "node_rank"))  # of those, what is no text


def need_certain(read: Options, numbers: bool = False) -> None:
    """Undecided where a flag that matters has a value that is filled in only when it runs. `numbers`: ports matter, too."""
    words = [word for dest, word in read.open.items() if dest not in _BESIDE or (numbers and dest in _NUMBERS)]
    if words:
        raise Undecided("launch-words-open", words=words)
