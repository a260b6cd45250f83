"""The content of small model repositories, made by the writers that make real ones: name -> bytes; nothing is laid on disk here."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import pickle
import struct
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from safetensors import TensorSpec, serialize

Repo = dict[str, bytes]

HIDDEN, INNER, WORDS, LAYERS = 64, 128, 256, 4
INDEX = "model.safetensors.index.json"
CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def shapes() -> dict[str, tuple[int, ...]]:
    """The tensors of a Llama of four layers, in the order in which transformers writes them."""
    made: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (WORDS, HIDDEN)}
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        for name in ("q", "k", "v", "o"):
            made[f"{at}self_attn.{name}_proj.weight"] = (HIDDEN, HIDDEN)
        made |= {f"{at}mlp.{name}_proj.weight": (INNER, HIDDEN) for name in ("gate", "up")}
        made[f"{at}mlp.down_proj.weight"] = (HIDDEN, INNER)
        made |= {f"{at}{name}_layernorm.weight": (HIDDEN,) for name in ("input", "post_attention")}
    return made | {"model.norm.weight": (HIDDEN,), "lm_head.weight": (WORDS, HIDDEN)}


@functools.cache
def values(name: str, shape: tuple[int, ...], seed: int = 0) -> Any:
    """Numbers as weights have them, the same every time: bfloat16 as its 16 bits."""
    numbers = np.random.default_rng([seed, *name.encode()]).normal(0, 0.02, shape).astype(np.float32)
    return (numbers.view(np.uint32) >> 16).astype(np.uint16)


def safetensors(names: list[str], seed: int = 0, dtype: str = "bfloat16") -> bytes:
    held = {n: values(n, shapes()[n], seed) for n in names}
    specs = {
        n: TensorSpec(dtype=dtype, shape=v.shape, data_ptr=v.ctypes.data, data_len=v.nbytes) for n, v in held.items()
    }
    return bytes(serialize(specs, metadata={"format": "pt"}))


def shard(number: int, total: int = 3, stem: str = "model", end: str = "safetensors") -> str:
    return f"{stem}-{number:05}-of-{total:05}.{end}"


def parts(total: int) -> list[list[str]]:
    names = list(shapes())
    step = -(-len(names) // total)
    return [names[i : i + step] for i in range(0, len(names), step)]


def config(**more: Any) -> bytes:
    made = {
        "architectures": ["LlamaForCausalLM"],
        "bos_token_id": 1,
        "eos_token_id": 2,
        "hidden_act": "silu",
        "hidden_size": HIDDEN,
        "initializer_range": 0.02,
        "intermediate_size": INNER,
        "max_position_embeddings": 2048,
        "model_type": "llama",
        "num_attention_heads": 4,
        "num_hidden_layers": LAYERS,
        "num_key_value_heads": 4,
        "rms_norm_eps": 1e-05,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "transformers_version": "4.57.0",
        "vocab_size": WORDS,
    } | more
    return (json.dumps(made, indent=2) + "\n").encode()


def tokenizer() -> bytes:
    """As `tokenizers` writes a byte-level BPE."""
    special = [
        {
            "id": i,
            "content": word,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for i, word in enumerate(("<unk>", "<s>", "</s>"))
    ]
    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2} | {f"w{i}": i for i in range(3, WORDS)}
    made = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special,
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": vocab,
            "merges": [],
        },
    }
    return json.dumps(made, indent=2).encode()


def small() -> Repo:
    """Everything but the weights."""
    tokens = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    set_up = tokens | {
        "add_bos_token": True,
        "chat_template": CHAT_TEMPLATE,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 2048,
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    return {
        ".gitattributes": b"*.safetensors filter=lfs diff=lfs merge=lfs -text\n*.bin filter=lfs diff=lfs merge=lfs -text\n",
        "LICENSE": b"Apache License\nVersion 2.0, January 2004\n",
        "README.md": b"---\nlicense: apache-2.0\npipeline_tag: text-generation\n---\n# A small model\n",
        "assets/picture.png": b"\x89PNG\r\n\x1a\n" + bytes(range(256)),
        "config.json": config(),
        "generation_config.json": b'{\n  "bos_token_id": 1,\n  "eos_token_id": 2,\n  "temperature": 0.6\n}\n',
        "special_tokens_map.json": json.dumps(tokens, indent=2).encode(),
        "tokenizer.json": tokenizer(),
        "tokenizer_config.json": json.dumps(set_up, indent=2).encode(),
    }


def weights(total: int = 3, seed: int = 0, index: bool = True) -> Repo:
    if total == 1:
        return {"model.safetensors": safetensors(list(shapes()), seed)}
    made: Repo = {}
    mapped: dict[str, str] = {}
    size = 0
    for number, names in enumerate(parts(total), 1):
        made[shard(number, total)] = safetensors(names, seed)
        mapped |= dict.fromkeys(names, shard(number, total))
        size += sum(values(n, shapes()[n]).nbytes for n in names)
    if index:
        described = {"metadata": {"total_size": size}, "weight_map": dict(sorted(mapped.items()))}
        made[INDEX] = (json.dumps(described, indent=2) + "\n").encode()
    return made


def sharded(total: int = 3, seed: int = 0, index: bool = True) -> Repo:
    return small() | weights(total, seed, index)


def single() -> Repo:
    return small() | weights(1)


# ---- PyTorch ----


def _text(word: str) -> bytes:
    return b"X" + struct.pack("<I", len(word.encode())) + word.encode()


def _number(value: int) -> bytes:
    return b"J" + struct.pack("<i", value)


def _tuple(values_: tuple[int, ...]) -> bytes:
    return b"(" + b"".join(map(_number, values_)) + b"t"


def _state_dict(names: list[str]) -> bytes:
    """The pickle that torch.save makes of a state dict (torch/_utils.py, _rebuild_tensor_v2), without torch."""
    out = [b"\x80\x02", b"ccollections\nOrderedDict\n", b")R", b"("]
    for number, name in enumerate(names):
        shape = shapes()[name]
        steps = tuple(int(np.prod(shape[i + 1 :])) for i in range(len(shape)))
        storage = b"(" + _text("storage") + b"ctorch\nBFloat16Storage\n" + _text(str(number)) + _text("cpu")
        storage += _number(int(np.prod(shape))) + b"tQ"
        out += [_text(name), b"ctorch._utils\n_rebuild_tensor_v2\n", b"(", storage, _number(0)]
        out += [_tuple(shape), _tuple(steps), b"\x89", b"ccollections\nOrderedDict\n", b")R", b"tR"]
    return b"".join([*out, b"u."])


def torch_zip(names: list[str], stem: str = "archive") -> bytes:
    """As torch.save has written it since 1.6: a stored zip whose records begin at multiples of 64 bytes (caffe2/serialize/inline_container.cc)."""
    members = {"data.pkl": _state_dict(names), "byteorder": b"little"}
    members |= {f"data/{i}": values(n, shapes()[n]).tobytes() for i, n in enumerate(names)}
    members |= {"version": b"3\n", ".data/serialization_id": b"0636457737946401051300000025263211150037"}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as z:
        for name, data in members.items():
            info = zipfile.ZipInfo(f"{stem}/{name}", (1980, 1, 1, 0, 0, 0))
            begin = out.tell() + 30 + len(info.filename) + 4
            info.extra = b"FB" + struct.pack("<H", -begin % 64) + b"Z" * (-begin % 64)
            z.writestr(info, data)
    return out.getvalue()


def torch_legacy(names: list[str]) -> bytes:
    """As torch.save wrote it before 1.6, in outline: magic, protocol, system, then the pickle, the keys and the storages."""
    head = [
        pickle.dumps(v, 2) for v in (0x1950A86A20F9469CFC6C, 1001, {"protocol_version": 1001, "little_endian": True})
    ]
    keys = pickle.dumps([str(i) for i in range(len(names))], 2)
    data = b"".join(struct.pack("<q", values(n, shapes()[n]).size) + values(n, shapes()[n]).tobytes() for n in names)
    return b"".join(head) + _state_dict(names) + keys + data


def pytorch(total: int = 1) -> Repo:
    if total == 1:
        return small() | {"pytorch_model.bin": torch_zip(list(shapes()))}
    made = small()
    mapped: dict[str, str] = {}
    for number, names in enumerate(parts(total), 1):
        made[shard(number, total, "pytorch_model", "bin")] = torch_zip(names)
        mapped |= dict.fromkeys(names, shard(number, total, "pytorch_model", "bin"))
    size = sum(values(n, s).nbytes for n, s in shapes().items())
    described = {"metadata": {"total_size": size}, "weight_map": mapped}
    return made | {"pytorch_model.bin.index.json": json.dumps(described, indent=2).encode()}


# ---- GGUF ----


@functools.cache
def gguf_files(name: str = "model-F16", split: int = 0, kind: str = "F16") -> tuple[tuple[str, bytes], ...]:
    """Written by gguf-py, as llama.cpp's converter does; `split`: tensors a file at most."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        writer = gguf.GGUFWriter(Path(folder) / f"{name}.gguf", "llama", split_max_tensors=split)
        writer.add_name("small")
        writer.add_context_length(2048)
        writer.add_embedding_length(HIDDEN)
        writer.add_block_count(LAYERS)
        writer.add_feed_forward_length(INNER)
        writer.add_head_count(4)
        writer.add_head_count_kv(4)
        writer.add_layer_norm_rms_eps(1e-5)
        writer.add_vocab_size(WORDS)
        writer.add_tokenizer_model("gpt2")
        writer.add_token_list([f"w{i}" for i in range(WORDS)])
        writer.add_token_types([1] * WORDS)
        writer.add_chat_template(CHAT_TEMPLATE)
        for tensor, shape in shapes().items():
            numbers = np.random.default_rng([*tensor.encode()]).normal(0, 0.02, shape)
            data = numbers.astype(np.float32 if len(shape) == 1 or kind != "F16" else np.float16)
            if kind == "Q8_0" and len(shape) == 2:
                quantised = gguf.quants.quantize(data, gguf.GGMLQuantizationType.Q8_0)
                writer.add_tensor(tensor, quantised, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
            else:
                writer.add_tensor(tensor, data)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return tuple((p.name, p.read_bytes()) for p in sorted(Path(folder).iterdir()))
