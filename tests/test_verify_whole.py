"""A whole folder of any layout is found whole, and what is published as real repositories are is not called damaged."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import verify_builder as build
import verify_hub as hub
import verify_repos as repos
import verify_run as running
from verify_repos import Repo


def no_complaint(said: running.Said) -> None:
    assert said.status == 0, said.told()
    assert not said.results("fail", "warn", "error"), said.told()
    assert said.report["exit_code"] == 0
    assert said.report["verdict"] != "fail"


def verify(made: build.Made, tmp_path: Path, *args: str) -> running.Said:
    argv = ["verify", made.target, "--format", "json", *made.args, *args]
    return running.forked(argv, running.environment(tmp_path / "cache", made.env))


@pytest.mark.parametrize("layout", build.LAYOUTS, ids=lambda x: x.name)
def test_a_whole_folder_is_found_whole_and_proven_where_something_vouches(
    layout: build.Layout, shelf: Path, tmp_path: Path
) -> None:
    made = build.take(shelf, layout, tmp_path / "x")
    said = verify(made, tmp_path)
    no_complaint(said)
    report = said.report
    assert report["layout"] == (layout.kind or report["layout"])
    assert (report["repo"], report["revision"]) == (
        layout.repo or report["repo"],
        layout.revision or report["revision"],
    )
    for name in layout.weights:
        file = said.file(name)
        data = made.real(name).read_bytes()
        assert (file["size"], file["role"], file["how"], file["error"]) == (len(data), "weights", "hashed", None)
        assert file["status"] == ("proven" if layout.vouched else "unproven"), said.told()
        if file["algorithm"] in hashlib.algorithms_available:
            assert file["digest"] == hashlib.new(file["algorithm"], data).hexdigest()
    assert said.status_of("weights-checksum-mismatch") == ("pass" if layout.vouched else "unknown"), said.told()
    summary = report["summary"]
    if layout.vouched == "all":  # a list of checksums does not vouch for itself
        lists = {"SHA256SUMS", "sha256sum.txt"}
        assert {f["name"] for f in report["files"] if f["status"] != "proven"} <= lists, said.told()
        assert summary["proven_files"] >= 9
    elif not layout.vouched:
        assert summary["proven_files"] == 0
    assert (summary["wrong_files"], summary["unread_files"]) == (0, 0)
    json.dumps(report)


@pytest.mark.parametrize("layout", build.LAYOUTS, ids=lambda x: x.name)
def test_text_says_in_a_word_what_is_proven(layout: build.Layout, shelf: Path, tmp_path: Path) -> None:
    made = build.take(shelf, layout, tmp_path / "x")
    languages = [("en", "not provable offline"), ("zh", "离线")]
    for lang, unprovable in languages if layout.name in ("sharded", "hub", "local", "modelscope") else languages[:1]:
        said = running.forked(
            ["verify", made.target, *made.args, "--lang", lang], running.environment(tmp_path / "cache", made.env)
        )
        assert said.status == 0, said.out
        assert (unprovable in said.out) is not bool(layout.vouched), said.out
        assert layout.vouched or "--write-manifest" in said.out
        assert "Traceback" not in said.err


# ---- as they are published ----


def some(*keep: str) -> Repo:
    return {n: d for n, d in repos.small().items() if n in keep}


def gpt2() -> Repo:
    """Weights of three frameworks side by side, old tokenizer files, an onnx folder."""
    made = repos.single() | repos.pytorch() | {"tf_model.h5": b"\x89HDF\r\n\x1a\n" + bytes(range(200))}
    del made["tokenizer.json"], made["special_tokens_map.json"]
    made |= {
        "vocab.json": json.dumps({f"w{i}": i for i in range(256)}).encode(),
        "merges.txt": b"#version: 0.2\nw 1\n",
        "flax_model.msgpack": b"\x81\xa1x\x93" + bytes(range(99)),
        "rust_model.ot": repos.torch_zip(["model.norm.weight"]),
        "onnx/decoder_model.onnx": b"\x08\x07\x12\x07pytorch" + bytes(range(200)),
        "onnx/config.json": repos.config(),
        "64.tflite": b"\x1c\0\0\0TFL3" + bytes(range(100)),
    }
    return made


def mistral() -> Repo:
    """The whole model once more under Mistral's own names."""
    return repos.sharded() | {
        "consolidated.safetensors": repos.safetensors(list(repos.shapes()), 3),
        "params.json": b'{"dim": 64, "n_layers": 4, "head_dim": 16, "hidden_dim": 128, "n_heads": 4, "n_kv_heads": 4, "norm_eps": 1e-05, "vocab_size": 256}',
        "tekken.json": json.dumps({"config": {"pattern": "x"}, "vocab": [], "special_tokens": []}).encode(),
    }


def ministral() -> Repo:
    """The same in one file each: vLLM takes the consolidated ones where there are any, Transformers the others."""
    made = mistral()
    return {n: d for n, d in made.items() if "-of-" not in n and n != repos.INDEX} | repos.weights(1)


def mistral_alone() -> Repo:
    """Published for vLLM alone: no configuration but params.json, no tokenizer but tekken.json."""
    keep = ("consolidated.safetensors", "params.json", "tekken.json", "README.md", ".gitattributes")
    return {n: d for n, d in mistral().items() if n in keep}


def mistral_large() -> Repo:
    """The consolidated weights in shards with an index of their own."""
    weights = repos.weights(2)
    index = json.loads(weights.pop(repos.INDEX))
    index["weight_map"] = {k: v.replace("model-", "consolidated-") for k, v in index["weight_map"].items()}
    made = {n.replace("model-", "consolidated-"): d for n, d in weights.items()}
    rest = {n: d for n, d in mistral_alone().items() if n != "consolidated.safetensors"}
    return rest | made | {"consolidated.safetensors.index.json": json.dumps(index).encode()}


def llama() -> Repo:
    """Meta's own files in a folder of their own."""
    return repos.sharded() | {
        "original/consolidated.00.pth": repos.torch_zip(list(repos.shapes()), "consolidated"),
        "original/params.json": b'{"dim": 64, "n_layers": 4}',
        "original/tokenizer.model": b"\n\x0e\n\x05<unk>\x15\0\0\0\0\x18\x02" * 40,
        "USE_POLICY.md": b"# Policy\n",
    }


def own_code() -> Repo:
    config = repos.config(
        auto_map={"AutoConfig": "configuration_small.SmallConfig", "AutoModelForCausalLM": "modeling_small.Small"}
    )
    return repos.sharded() | {
        "config.json": config,
        "configuration_small.py": b"class SmallConfig: ...\n",
        "modeling_small.py": b"class Small: ...\n",
    }


def code_elsewhere() -> Repo:
    """`org/other--file.Class`: the code lies in another repository."""
    return repos.sharded() | {"config.json": repos.config(auto_map={"AutoModel": "org/other--modeling_small.Small"})}


def base_model() -> Repo:
    made = repos.sharded()
    settings = json.loads(made["tokenizer_config.json"])
    del settings["chat_template"]
    return made | {"tokenizer_config.json": json.dumps(settings).encode()}


def template_files() -> Repo:
    made = base_model()
    return made | {
        "chat_template.jinja": repos.CHAT_TEMPLATE.encode(),
        "additional_chat_templates/tool_use.jinja": repos.CHAT_TEMPLATE.encode(),
    }


def tied() -> Repo:
    names = [n for n in repos.shapes() if n != "lm_head.weight"]
    return repos.small() | {
        "config.json": repos.config(tie_word_embeddings=True),
        "model.safetensors": repos.safetensors(names),
    }


def float_total() -> Repo:
    """Some published indexes give the size as a float, or give a count of parameters too, or none at all."""
    made = repos.sharded()
    index = json.loads(made[repos.INDEX])
    index["metadata"] = {"total_size": float(index["metadata"]["total_size"]), "total_parameters": 203456}
    return made | {repos.INDEX: json.dumps(index).encode()}


def empty_metadata() -> Repo:
    made = repos.sharded()
    index = json.loads(made[repos.INDEX])
    index["metadata"] = {}
    return made | {repos.INDEX: json.dumps(index).encode()}


def sentence_piece() -> Repo:
    made = repos.sharded()
    del made["tokenizer.json"]
    return made | {"tokenizer.model": b"\n\x0e\n\x05<unk>\x15\0\0\0\0\x18\x02" * 40}


def zero_biases() -> Repo:
    """Biases and fresh adapters are legitimately nothing but zeros."""
    import numpy as np
    from safetensors.numpy import save

    made = repos.single()
    tensors = {f"model.layers.{i}.self_attn.q_proj.bias": np.zeros(4096, np.float32) for i in range(4)}
    return made | {
        "model.safetensors": save({"model.embed_tokens.weight": np.ones((256, 64), np.float32), **tensors}),
    }


def ends_in_zero() -> Repo:
    """The last tensor of a file may be a bias of zeros, too."""
    import numpy as np
    from safetensors.numpy import save

    return repos.single() | {
        "model.safetensors": save({"a.weight": np.ones((256, 64), np.float32), "z.bias": np.zeros(64, np.float32)})
    }


def quantised() -> Repo:
    """Packed integers, scales of one element, an empty tensor."""
    import numpy as np
    from safetensors.numpy import save

    tensors = {
        "model.layers.0.mlp.up_proj.qweight": np.arange(4096, dtype=np.int32).reshape(64, 64),
        "model.layers.0.mlp.up_proj.scales": np.ones((2, 64), np.float16),
        "model.layers.0.mlp.up_proj.g_idx": np.zeros(64, np.int32),
        "model.layers.0.mlp.up_proj.qzeros": np.full((2, 8), 0x77777777, np.int32),
        "model.layers.0.mlp.up_proj.input_scale": np.array(0.5, np.float32),
        "model.layers.0.mlp.up_proj.empty": np.zeros((0, 4), np.float32),
    }
    config = repos.config(quantization_config={"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": False})
    return repos.single() | {
        "model.safetensors": save(tensors, {"format": "pt", "quantized_by": "x"}),
        "config.json": config,
        "quantize_config.json": b'{"bits": 4}',
    }


def several_gguf() -> Repo:
    return {"README.md": b"# GGUF\n", **dict(repos.gguf_files()), **dict(repos.gguf_files("model-Q8_0", kind="Q8_0"))}


def split_gguf_folder() -> Repo:
    """Each quantisation in a folder of its own, as large ones are published."""
    return (
        {f"BF16/{n}": d for n, d in repos.gguf_files(split=15)}
        | {f"Q8_0/{n}": d for n, d in repos.gguf_files("model-Q8_0", 15, "Q8_0")}
        | {"README.md": b"# GGUF\n"}
    )


def sentence_transformer() -> Repo:
    return repos.single() | {
        "modules.json": b'[{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}]',
        "1_Pooling/config.json": b'{"word_embedding_dimension": 64, "pooling_mode_cls_token": true}',
        "config_sentence_transformers.json": b"{}",
        "sentence_bert_config.json": b'{"max_seq_length": 512}',
    }


def vision() -> Repo:
    return repos.sharded() | {
        "config.json": repos.config(
            architectures=["LlavaForConditionalGeneration"],
            model_type="llava",
            text_config={"model_type": "llama", "hidden_size": 64},
            vision_config={"model_type": "clip_vision_model", "hidden_size": 64},
        ),
        "preprocessor_config.json": b'{"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 336}}',
        "processor_config.json": b'{"processor_class": "LlavaProcessor"}',
    }


def fp8() -> Repo:
    """Block scales and float8 weights, whose bytes are often equal."""
    names = [n for n in repos.shapes() if len(repos.shapes()[n]) == 2][:6]
    import numpy as np
    from safetensors import TensorSpec, serialize

    held = {n: np.arange(int(np.prod(repos.shapes()[n])), dtype=np.uint8).reshape(repos.shapes()[n]) for n in names}
    specs = {
        n: TensorSpec(dtype="float8_e4m3fn", shape=v.shape, data_ptr=v.ctypes.data, data_len=v.nbytes)
        for n, v in held.items()
    }
    return repos.single() | {"model.safetensors": bytes(serialize(specs, metadata={"format": "pt"}))}


def odd_names() -> Repo:
    return repos.sharded() | {"docs/a file (1) 中文 'quoted'.md": b"x", "docs/%20.txt": b"y", "empty.txt": b""}


def training_left() -> Repo:
    """What a fine-tune leaves beside its model."""
    return repos.sharded() | {
        "training_args.bin": repos.torch_zip(["model.norm.weight"], "training_args"),
        "trainer_state.json": b'{"epoch": 1.0}',
        "optimizer.pt": repos.torch_zip(["model.norm.weight"], "optimizer"),
        "scheduler.pt": repos.torch_zip(["model.norm.weight"], "scheduler"),
        "rng_state.pth": repos.torch_zip(["model.norm.weight"], "rng_state"),
        "runs/events.out.tfevents.1": b"\x18\0",
    }


def adapter() -> Repo:
    """A LoRA has no model's configuration of its own."""
    return {
        "adapter_config.json": b'{"peft_type": "LORA", "r": 8, "lora_alpha": 16, "base_model_name_or_path": "org/base", "target_modules": ["q_proj"]}',
        "adapter_model.safetensors": repos.safetensors(["model.layers.0.self_attn.q_proj.weight"], 5),
        "README.md": b"# adapter\n",
    }


def legacy_torch() -> Repo:
    return repos.small() | {"pytorch_model.bin": repos.torch_legacy(list(repos.shapes()))}


def diffusers() -> Repo:
    """A pipeline: each component has a folder, a configuration and weights of its own, some in two precisions."""
    weights = repos.weights(2)
    index = json.loads(weights.pop(repos.INDEX))
    stem = "diffusion_pytorch_model"
    renamed = {k: v.replace("model-", f"{stem}-") for k, v in index["weight_map"].items()}
    return {
        "README.md": b"# a pipeline\n",
        "model_index.json": b'{"_class_name": "FluxPipeline", "transformer": ["diffusers", "FluxTransformer2DModel"], "vae": ["diffusers", "AutoencoderKL"], "tokenizer": ["transformers", "CLIPTokenizer"]}',
        "transformer/config.json": b'{"_class_name": "FluxTransformer2DModel"}',
        f"transformer/{stem}.safetensors.index.json": json.dumps(index | {"weight_map": renamed}).encode(),
        **{f"transformer/{n.replace('model-', stem + '-')}": d for n, d in weights.items()},
        "vae/config.json": b'{"_class_name": "AutoencoderKL"}',
        f"vae/{stem}.safetensors": repos.safetensors(["model.embed_tokens.weight"]),
        f"vae/{stem}.fp16.safetensors": repos.safetensors(["model.embed_tokens.weight"], 2),
        "tokenizer/vocab.json": b"{}",
        "tokenizer/merges.txt": b"#version: 0.2\n",
        "scheduler/scheduler_config.json": b"{}",
    }


def sharded_state() -> Repo:
    """As vLLM's and SGLang's save_sharded_state writes: one file a rank."""
    names = repos.parts(2)
    return repos.small() | {f"model-rank-{i}-part-0.safetensors": repos.safetensors(n) for i, n in enumerate(names)}


def odd_json() -> Repo:
    """Python writes Infinity and NaN, and integers that fit no machine word; every loader reads them."""
    made = repos.sharded()
    config = json.loads(made["config.json"])
    config |= {
        "rope_scaling": None,
        "attention_logit_cap": float("inf"),
        "time_step_limit": [0.0, float("inf")],
        "x": float("nan"),
    }
    settings = json.loads(made["tokenizer_config.json"])
    settings["model_max_length"] = 1000000000000000019884624838656
    settings["chat_template"] = [{"name": "default", "template": repos.CHAT_TEMPLATE}]
    return made | {
        "config.json": json.dumps(config).encode(),
        "tokenizer_config.json": json.dumps(settings).encode(),
        "generation_config.json": b'{"eos_token_id": [2, 3], "transformers_version": "4.57.0", "max_length": 1e400}\r\n',
        "chat_template.json": json.dumps({"chat_template": repos.CHAT_TEMPLATE}).encode(),
    }


def few_small() -> Repo:
    """The least that an engine needs."""
    return {n: d for n, d in repos.single().items() if n in ("config.json", "tokenizer.json", "model.safetensors")}


def clip_l14() -> Repo:
    """Old checkpoints have buffers of int64 and booleans, scalars and unaligned headers."""
    import struct

    text = b'{"logit_scale":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"position_ids":{"dtype":"I64","shape":[1,2],"data_offsets":[4,20]},"mask":{"dtype":"BOOL","shape":[3],"data_offsets":[20,23]}}'
    text += b" " * (3 - len(text) % 8)
    return repos.single() | {"model.safetensors": struct.pack("<Q", len(text)) + text + bytes(range(1, 24))}


def gguf_with_more() -> Repo:
    """Beside the model: a projector, and no configuration."""
    return {
        "model-F16.gguf": dict(repos.gguf_files())["model-F16.gguf"],
        "mmproj-F16.gguf": dict(repos.gguf_files("mmproj-F16"))["mmproj-F16.gguf"],
        "imatrix.dat": b"\x01\0\0\0" + bytes(range(100)),
        "params": b'{"stop": ["</s>"]}',
        "template": b"{{ .Prompt }}",
    }


def many_lists() -> Repo:
    """The list of checksums of a release names files that this folder was never meant to hold."""
    made = repos.sharded()
    more = {"model-Q8_0.gguf": b"q", "original/consolidated.00.pth": b"o", "paper.pdf": b"p"}
    return made | {"SHA256SUMS": build.gnu(made | more).encode()}


# What each kind of tokenizer keeps its words in: class -> files instead of tokenizer.json. (transformers, VOCAB_FILES_NAMES of each class)
VOCABULARIES: dict[str, Repo] = {
    "LlamaTokenizer": {"tokenizer.model": b"\n\x0e\n\x05<unk>\x15\0\0\0\0\x18\x02" * 40},
    "T5Tokenizer": {"spiece.model": b"\n\x0e\n\x05<pad>\x15\0\0\0\0\x18\x03" * 40},
    "XLMRobertaTokenizer": {"sentencepiece.bpe.model": b"\n\x0e\n\x05<unk>\x15\0\0\0\0\x18\x02" * 40},
    "BertTokenizer": {"vocab.txt": b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n"},
    "GPT2Tokenizer": {"vocab.json": b'{"a": 0}', "merges.txt": b"#version: 0.2\n"},
    "Qwen2Tokenizer": {"vocab.json": b'{"a": 0}', "merges.txt": b"#version: 0.2\n"},
    "WhisperTokenizer": {"vocab.json": b'{"a": 0}', "merges.txt": b"#version: 0.2\n", "normalizer.json": b"{}"},
    "Wav2Vec2CTCTokenizer": {"vocab.json": b'{"a": 0}'},
    "ByT5Tokenizer": {},
    "CanineTokenizer": {},
    "TikTokenTokenizer": {
        "tiktoken.model": b"IQ== 0\nIg== 1\n",
        "tokenization_kimi.py": b"class TikTokenTokenizer: ...\n",
    },
    "QWenTokenizer": {"qwen.tiktoken": b"IQ== 0\nIg== 1\n", "tokenization_qwen.py": b"class QWenTokenizer: ...\n"},
    "ChatGLM4Tokenizer": {
        "tokenizer.model": b"IQ== 0\nIg== 1\n",
        "tokenization_chatglm.py": b"class ChatGLM4Tokenizer: ...\n",
    },
    "RWKVWorldTokenizer": {
        "rwkv_vocab_v20230424.txt": b"1 '\\x00' 1\n",
        "hf_rwkv_tokenizer.py": b"class RWKVWorldTokenizer: ...\n",
    },
    "MistralCommonTokenizer": {"tekken.json": b'{"config": {"pattern": "x"}, "vocab": [], "special_tokens": []}'},
    "BloomTokenizerFast": {"tokenizer.json": repos.tokenizer()},
    "FunnyOwnTokenizer": {"words.bin": b"xyz", "tokenization_own.py": b"class FunnyOwnTokenizer: ...\n"},
}


@pytest.mark.parametrize("name", VOCABULARIES)
def test_every_kind_of_vocabulary_is_one(name: str, tmp_path: Path) -> None:
    made = repos.single()
    files = VOCABULARIES[name]
    settings = json.loads(made["tokenizer_config.json"]) | {"tokenizer_class": name}
    code = next((n for n in files if n.endswith(".py")), None)
    if code:
        settings["auto_map"] = {"AutoTokenizer": [f"{code.removesuffix('.py')}.{name}", None]}
    del made["tokenizer.json"], made["special_tokens_map.json"]
    build.lay(tmp_path / "m", made | files | {"tokenizer_config.json": json.dumps(settings).encode()})
    no_complaint(
        running.forked(["verify", str(tmp_path / "m"), "--format", "json"], running.environment(tmp_path / "c"))
    )


PUBLISHED: dict[str, Callable[[], Repo]] = {
    f.__name__: f
    for f in (
        gpt2, mistral, llama, own_code, code_elsewhere, base_model, template_files, tied, float_total, empty_metadata,
        sentence_piece, zero_biases, ends_in_zero, quantised, several_gguf, split_gguf_folder, sentence_transformer,
        vision, fp8, odd_names, training_left, adapter, legacy_torch, diffusers, sharded_state, odd_json, few_small,
        clip_l14, gguf_with_more, many_lists, ministral, mistral_alone, mistral_large,
    )
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_what_is_published_is_not_called_damaged(name: str, tmp_path: Path) -> None:
    repo = PUBLISHED[name]()
    build.lay(tmp_path / "m", repo)
    env = running.environment(tmp_path / "cache")
    no_complaint(running.forked(["verify", str(tmp_path / "m"), "--format", "json"], env))
    (tmp_path / "list").write_text(json.dumps(hub.model_info(build.ID, build.COMMIT, repo)))
    argv = ["verify", str(tmp_path / "m"), "--format", "json", "--manifest", str(tmp_path / "list")]
    said = running.forked(argv, env)
    no_complaint(said)
    assert {f["status"] for f in said.report["files"]} == {"proven"}, said.told()
    assert {f["name"] for f in said.report["files"]} == set(repo)


def linked(root: Path) -> Path:
    """A `local_dir` of huggingface_hub before 0.23: large files are links into the cache's blobs."""
    shutil.copytree(root / "hub-source", root / "x", symlinks=True)
    folder = build.lay(root / "m", {n: d for n, d in repos.sharded().items() if not n.endswith(".safetensors")})
    for number in (1, 2, 3):
        real = os.path.realpath(root / "x" / build.SNAPSHOT / repos.shard(number))
        (folder / repos.shard(number)).symlink_to(real)
    return folder


def test_an_old_local_folder_of_links_into_the_cache_is_whole(shelf: Path, tmp_path: Path) -> None:
    shutil.copytree(shelf / "hub", tmp_path / "hub-source", symlinks=True)
    folder = linked(tmp_path)
    no_complaint(running.forked(["verify", str(folder), "--format", "json"], running.environment(tmp_path / "c")))


def test_a_snapshot_of_real_files_is_whole(shelf: Path, tmp_path: Path) -> None:
    """Where the file system knows no links, the client puts the files themselves into the snapshot."""
    for layout in ("hub", "hub-by-file"):
        made = build.take(shelf, layout, tmp_path / layout)
        for path in made.folder.rglob("*"):
            if path.is_symlink():
                os.replace(os.path.realpath(path), path)
        said = verify(made, tmp_path)
        no_complaint(said)
        assert said.report["layout"] == "hub-cache"


def test_files_of_the_same_content_are_whole(tmp_path: Path) -> None:
    """Hard links within the folder."""
    folder = build.lay(tmp_path / "m", repos.single())
    os.link(folder / "config.json", folder / "config-copy.json")
    no_complaint(running.forked(["verify", str(folder), "--format", "json"], running.environment(tmp_path / "c")))


@pytest.mark.parametrize("layout", ["hub", "local", "sums gnu", "sums beside"])
def test_one_file_of_a_layout_is_proven_by_what_vouches_beside_it(layout: str, shelf: Path, tmp_path: Path) -> None:
    made = build.take(shelf, layout, tmp_path / "x")
    env = running.environment(tmp_path / "c")
    path = made.folder / made.victim
    said = running.forked(["verify", str(path), "--format", "json"], env)
    no_complaint(said)
    assert [f["status"] for f in said.report["files"]] == ["proven"], said.told()
    real = made.real(made.victim)
    data = bytearray(real.read_bytes())
    data[-9] ^= 1
    real.write_bytes(data)
    said = running.forked(["verify", str(path), "--format", "json"], env)
    assert said.status == 1, said.told()


def test_a_folder_that_is_a_git_checkout_is_whole(tmp_path: Path) -> None:
    repo: Any = repos.sharded() | {
        ".git/HEAD": b"ref: refs/heads/main\n",
        ".git/lfs/tmp/12345": b"",
        ".git/index": b"DIRC",
    }
    build.lay(tmp_path / "m", repo)
    no_complaint(
        running.forked(["verify", str(tmp_path / "m"), "--format", "json"], running.environment(tmp_path / "c"))
    )


def test_a_folder_that_is_a_link_is_whole(shelf: Path, tmp_path: Path) -> None:
    made = build.take(shelf, "hub", tmp_path / "x")
    (tmp_path / "model").symlink_to(made.folder)
    said = running.forked(["verify", str(tmp_path / "model"), "--format", "json"], running.environment(tmp_path / "c"))
    no_complaint(said)
    assert said.report["summary"]["proven_files"] == 13, said.told()


def test_files_that_are_links_to_a_shared_disk_are_whole(tmp_path: Path) -> None:
    """A plain folder of links to another disk is how some sites share weights: nothing there is a download's layout."""
    store = build.lay(tmp_path / "store", repos.sharded())
    (tmp_path / "m").mkdir()
    for path in store.iterdir():
        (tmp_path / "m" / path.name).symlink_to(path)
    no_complaint(
        running.forked(["verify", str(tmp_path / "m"), "--format", "json"], running.environment(tmp_path / "c"))
    )


def test_a_path_may_be_relative_and_end_in_a_slash(shelf: Path, tmp_path: Path) -> None:
    build.take(shelf, "sums gnu", tmp_path / "x")
    for path in ("x/m", "x/m/", "./x//m/.", "x/m/../m"):
        said = running.forked(
            ["verify", path, "--format", "json"], running.environment(tmp_path / "c"), cwd=str(tmp_path)
        )
        no_complaint(said)
        assert said.report["summary"]["proven_files"] >= 13
