"""A model's small files are found whole or damaged, and what its type needs is found missing; published layouts are left in peace."""

from __future__ import annotations

import base64
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import weights_builder as build
from ds_doctor import engine
from ds_doctor.host import Asked, Host
from ds_doctor.model import Outcome, Reason
from ds_doctor.probes._vocabulary import merges_problem, sentencepiece_problem, tiktoken_problem, unclosed
from ds_doctor.probes.model_config import ModelConfig, model_config
from ds_doctor.probes.model_folder import ModelFolder, model_folder
from ds_doctor.probes.model_parts import ModelParts, model_parts
from support import doctor, module_checks

TEMPLATE = """{%- set ns = namespace(n=0) -%}
{# A comment with {% if %} in it #}
{%- for message in messages %}
{%- if message['role'] == 'user' %}{{ '<|user|> %} ' + message['content'] }}
{%- elif message.get("tool", {"a": {"b": 1}}) %}{% set x %}{{ x|default({}) }}{% endset %}
{%- endif %}{% endfor %}{% raw %}{% if {{ {% endraw %}
{%- macro f(a={}) %}{{- {'a': {'b': "}}"}} -}}{% endmacro %}{% generation %}{{ f() }}{% endgeneration %}
"""


def pieces(count: int = 300) -> bytes:
    """A SentencePiece model: its pieces, then what its trainer noted."""
    out = b""
    for n in range(count):
        word = f"piece{n}".encode()
        inner = b"\n" + bytes([len(word)]) + word + b"\x15\0\0\x80\xbf"
        out += b"\n" + bytes([len(inner)]) + inner
    return out + b"\x12\x05\n\x03abc" + b"\x1a\x02\n\0"


def tiktoken(count: int = 300) -> bytes:
    return b"".join(base64.b64encode(f"t{n}".encode()) + f" {n}\n".encode() for n in range(count))


def look(folder: Path) -> ModelParts:
    fact = model_parts(Host(Asked(model=str(folder)), {"HOME": "/nonexistent"}))
    assert msgspec.json.decode(msgspec.json.encode(fact), type=ModelParts) == fact
    return fact


def faults(folder: Path) -> set[str]:
    host = Host(Asked(model=str(folder)), {"HOME": "/nonexistent"})
    checks = module_checks("weights")
    rules = {r for c in checks for r in c.rules}
    nothing = {f: Outcome(None, "absent", Reason("no-command")) for f in engine.wanted(checks)}
    facts = {
        **nothing,
        ModelFolder: Outcome(model_folder(host)),
        ModelParts: Outcome(model_parts(host)),
        ModelConfig: Outcome(model_config(host)),
    }
    results = engine.judge(checks, facts, doctor().catalogue, rules)
    assert not [r for r in results if r.status == "error"]
    return {r.rule.removeprefix("weights-") for r in results if r.status in ("fail", "warn", "note")}


def set_config(folder: Path, name: str = "config.json", **more: Any) -> None:
    path = folder / name
    path.write_text(json.dumps((json.loads(path.read_text()) if path.exists() else {}) | more))


def put(name: str, data: bytes | str | dict[str, Any]) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        text = json.dumps(data) if isinstance(data, dict) else data
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)

    return change


def drop(*names: str) -> Callable[[Path], None]:
    return lambda folder: [(folder / n).unlink() for n in names] and None


HTML = b"<!DOCTYPE html><html><head><title>504</title></head></html>"
DAMAGED: dict[str, tuple[Callable[[Path], None], str]] = {
    "half a tokenizer.json that ends in a brace": (put("tokenizer.json", '{"model": {"vocab": {"a": 1}'), "small-file-malformed"),
    "a tokenizer.json with a hole of zeros": (put("tokenizer.json", b'{"a": "' + b"\0" * 5000 + b'"}'), "small-file-malformed"),
    "a tokenizer.json of two objects": (put("tokenizer.json", "{}{}"), "small-file-malformed"),
    "half a vocab.json": (put("vocab.json", '{"a": 1, "b": {'), "config-malformed"),
    "half a SentencePiece model": (put("tokenizer.model", pieces()[:-700]), "small-file-malformed"),
    "half a versioned SentencePiece model": (put("tokenizer.model.v3", pieces()[:-700]), "small-file-malformed"),
    "half a tiktoken vocabulary": (put("qwen.tiktoken", tiktoken()[:-7]), "small-file-malformed"),
    "half a line of merges": (put("merges.txt", "#version: 0.2\na b\nc d\ne"), "small-file-malformed"),
    "an empty added_tokens.json": (put("added_tokens.json", b""), "small-file-malformed"),
    "a vocabulary that is a pointer": (put("spiece.model", build.LFS), "small-file-malformed"),
    "a template that is a page": (put("chat_template.jinja", HTML), "template-malformed"),
    "a template that is a pointer": (put("chat_template.jinja", build.LFS), "template-malformed"),
    "an empty template": (put("chat_template.jinja", b""), "template-malformed"),
    "half a template": (put("chat_template.jinja", TEMPLATE[: len(TEMPLATE) // 2]), "template-malformed"),
    "half a template of several": (put("chat_templates/tools.jinja", TEMPLATE[:-30]), "template-malformed"),
    "half a chat_template.json": (put("chat_template.json", '{"chat_template": "{%'), "template-malformed"),
    "a tokenizer.json that is a list": (put("tokenizer.json", "[]"), "small-file-malformed"),
    "no vocabulary": (drop("tokenizer.json"), "tokenizer-missing"),
}  # fmt: skip


@pytest.mark.parametrize("fault", DAMAGED)
def test_a_damaged_small_file_is_found(tmp_path: Path, fault: str) -> None:
    change, rule = DAMAGED[fault]
    folder = build.sharded(tmp_path / "m")
    assert faults(folder) == set()
    change(folder)
    assert faults(folder) == {rule}


def of(**config: Any) -> Callable[[Path], None]:
    return lambda folder: set_config(folder, **config)


def both(*changes: Callable[[Path], None]) -> Callable[[Path], None]:
    return lambda folder: [c(folder) for c in changes] and None


QWEN_VL = of(model_type="qwen2_5_vl", architectures=["Qwen2_5_VLForConditionalGeneration"], vision_config={"depth": 32})
DEEPSEEK = {"AutoConfig": "configuration_deepseek.DeepseekV3Config", "AutoModelForCausalLM": "modeling_deepseek.DeepseekV3ForCausalLM"}  # fmt: skip
CODE = both(
    put("configuration_deepseek.py", "class DeepseekV3Config: ...\n"),
    put("modeling_deepseek.py", "from .configuration_deepseek import DeepseekV3Config\n"),
)
# As published: each is whole.
PUBLISHED: dict[str, Callable[[Path], None]] = {
    "a base model without a template": of(),
    "Qwen's own tokenizer": both(drop("tokenizer.json"), put("vocab.json", {"a": 0}), put("merges.txt", "#version: 0.2\na b\n"), put("tokenizer_config.json", {"tokenizer_class": "Qwen2Tokenizer"})),
    "a SentencePiece model alone": both(drop("tokenizer.json"), put("tokenizer.model", pieces())),
    "Llama 3's tiktoken file under another name": put("tokenizer.model", tiktoken()),
    "Kimi's tiktoken file and tokenizer code": both(drop("tokenizer.json"), put("tiktoken.model", tiktoken()), put("tokenization_kimi.py", "class TikTokenTokenizer: ...\n"), put("tokenizer_config.json", {"tokenizer_class": "TikTokenTokenizer", "auto_map": {"AutoTokenizer": ["tokenization_kimi.TikTokenTokenizer", None]}})),
    "Mistral's own format": both(drop("tokenizer.json", "tokenizer_config.json"), put("tekken.json", {"config": {}}), put("params.json", {"dim": 1})),
    "bytes instead of a vocabulary": both(drop("tokenizer.json"), put("tokenizer_config.json", {"tokenizer_class": "ByT5Tokenizer"})),
    "a vision model": both(QWEN_VL, put("preprocessor_config.json", {"patch_size": 14}), put("chat_template.json", {"chat_template": TEMPLATE}), put("video_preprocessor_config.json", {})),
    "a vision model saved by transformers 5": both(QWEN_VL, put("processor_config.json", {"image_processor": {}})),
    "the text part of a vision model": of(model_type="gemma3_text", architectures=["Gemma3ForCausalLM"]),
    "a model with its code": both(of(auto_map=DEEPSEEK), CODE),
    "code in another repository": of(auto_map={k: f"org/repo--{v}" for k, v in DEEPSEEK.items()}),
    "a template": put("chat_template.jinja", TEMPLATE),
    "a template with a page in it": put("chat_template.jinja", "<html>{% if x %}{{ x }}{% endif %}"),
    "DeepSeek's chat in the engine's code": of(model_type="deepseek_v41", architectures=["DeepseekV41ForConditionalGeneration"]),
    "an embedding model": both(of(model_type="bert", architectures=["BertModel"]), put("vocab.txt", "[PAD]\n"), put("modules.json", "[]"), put("1_Pooling/config.json", {})),
    "a quantised model": both(of(quantization_config={"quant_method": "gptq"}), put("quantize_config.json", {"bits": 4}), put("hf_quant_config.json", {"quantization": {}})),
    "NaN and Infinity in a configuration": put("video_preprocessor_config.json", '{"a": NaN, "b": Infinity}'),
    "a vocabulary that is a list": put("vocab.json", '["a", "b"]'),
    "a vocabulary under a name of its own": both(drop("tokenizer.json"), put("rwkv_vocab_v20230424.txt", "1 'a' 1"), put("tokenizer_config.json", {"auto_map": {"AutoTokenizer": ["hf_rwkv_tokenizer.RwkvTokenizer", None]}}), put("hf_rwkv_tokenizer.py", "")),
    "Whisper's tiktoken file with its empty token": put("multilingual.tiktoken", tiktoken() + b"= 50256"),
    "a log of training beside it": put("trainer_log.json", '{"a": 1}\n{"a": 2}\n'),
}  # fmt: skip


@pytest.mark.parametrize("kind", PUBLISHED)
def test_a_published_layout_is_whole(tmp_path: Path, kind: str) -> None:
    folder = build.sharded(tmp_path / "m")
    PUBLISHED[kind](folder)
    said = faults(folder)
    # 3 shards of 3 tensors are no DeepSeek-V4.1-Flash, and that is noted.
    more = (
        {"other-than-published"} if kind.startswith("DeepSeek") else {"tokenizer-missing"} if "own" in kind else set()
    )
    assert said <= more


def test_a_vision_model_without_its_processor_is_found(tmp_path: Path) -> None:
    folder = build.sharded(tmp_path / "m")
    QWEN_VL(folder)
    assert faults(folder) == {"processor-missing"}


def test_code_that_is_named_and_not_there_is_found(tmp_path: Path) -> None:
    folder = build.sharded(tmp_path / "m")
    set_config(folder, model_type="own", auto_map=DEEPSEEK)
    assert faults(folder) == {"code-missing", "model-code-missing"}
    set_config(folder, model_type="deepseek_v3")  # which engines and transformers know themselves
    assert faults(folder) == {"model-code-missing"}
    set_config(folder, model_type="own")
    CODE(folder)
    (folder / "modeling_deepseek.py").unlink()
    assert faults(folder) == {"model-code-missing"}
    CODE(folder)
    put("tokenizer_config.json", {"auto_map": {"AutoTokenizer": ["tokenization_own.Own", None]}})(folder)
    set_config(folder, model_type="llama")
    assert faults(folder) == {"code-missing"}


def test_code_that_other_code_imports_counts_too(tmp_path: Path) -> None:
    folder = build.sharded(tmp_path / "m")
    set_config(folder, auto_map=DEEPSEEK)
    CODE(folder)
    put(
        "modeling_deepseek.py",
        "import torch\nfrom .kernels import f\nfrom . import x\nfrom .configuration_deepseek import C\n",
    )(folder)
    assert look(folder).model_code_missing.first == ("kernels.py",)
    put("configuration_deepseek.py", "try:\n    from .kernels import f\nexcept ImportError: ...\n")(folder)
    assert look(folder).config_code_missing.first == ("kernels.py",)  # transformers does not look at the `try` either


def test_a_vocabulary_of_pairs_needs_its_merges(tmp_path: Path) -> None:
    folder = build.sharded(tmp_path / "m")
    both(
        drop("tokenizer.json"),
        put("vocab.json", {"a": 0}),
        put("tokenizer_config.json", {"tokenizer_class": "Qwen2Tokenizer"}),
    )(folder)
    assert faults(folder) == {"merges-missing"}


@pytest.mark.parametrize("name", ["Llama-3.1-8B-Instruct", "gemma-3-27b-it", "Qwen1.5-7B-Chat", "m_instruct"])
def test_a_chat_model_without_a_template_is_noted(tmp_path: Path, name: str) -> None:
    folder = build.sharded(tmp_path / name)
    assert faults(folder) == {"template-missing"}
    put("chat_template.jinja", TEMPLATE)(folder)
    assert faults(folder) == set()


@pytest.mark.parametrize("name", ["Llama-3.1-8B", "bitnet", "digit-7b", "chatty", "Qwen3-8B-Base"])
def test_no_other_name_promises_a_chat(tmp_path: Path, name: str) -> None:
    assert faults(build.sharded(tmp_path / name)) == set()


def test_the_published_checkpoint_is_told_by_its_figures(tmp_path: Path) -> None:
    folder = build.sharded(tmp_path / "DeepSeek-V4.1-Flash", 48)
    set_config(folder, model_type="deepseek_v41", architectures=["DeepseekV41ForConditionalGeneration"])
    assert faults(folder) == {"not-as-published"}
    renamed = folder.rename(tmp_path / "mine")
    assert faults(renamed) == {"other-than-published"}


def test_a_whole_template_has_nothing_open() -> None:
    assert unclosed(TEMPLATE) is None
    assert unclosed("") is None
    assert unclosed("{% set x = 1 %}{% set y %}z{% endset %}") is None
    assert unclosed("{% if a %}{% for b in c %}{% endfor %}") == "if"
    assert unclosed("{{ 'a' ") == "{{"
    assert unclosed("{{ 'a }}") == "{{"
    assert unclosed("{# }}") == "{#"
    assert unclosed("{% raw %}{% endraw") == "raw"
    assert unclosed("{%" * 100_000) == "{%"


def test_every_cut_of_a_vocabulary_is_found_but_one_between_two_entries() -> None:
    model = pieces(40)
    whole = [n for n in range(1, len(model)) if sentencepiece_problem(model[:n]) is None]
    assert sentencepiece_problem(model) is None and len(whole) <= 43
    lines = tiktoken(40)
    whole = [n for n in range(1, len(lines)) if tiktoken_problem(lines[:n]) is None]
    assert tiktoken_problem(lines) is None and len(whole) <= 120
    assert merges_problem(b"#version: 0.2\n") is None and merges_problem(b"a b\nc") == "cut"


def test_hostile_vocabularies_are_bounded() -> None:
    assert sentencepiece_problem(b"\n" + b"\xff" * 3_000_000) == "cut"
    assert sentencepiece_problem(b"\n\0" * 3_000_000) is None
    assert sentencepiece_problem(b"\n\x02ab" * 200 + b"\x0b") == "cut"
    assert tiktoken_problem(b"") == "cut"


@pytest.mark.parametrize("name", ["adapter_model.safetensors", "adapter_model.bin"])
def test_an_adapter_alone_is_whole(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "m"
    folder.mkdir()
    put("adapter_config.json", {"peft_type": "LORA", "base_model_name_or_path": "org/base"})(folder)
    if name.endswith(".bin"):
        with zipfile.ZipFile(folder / name, "w") as z:
            z.writestr("adapter_model/data.pkl", b"\x80\x02}q\0.")
    else:
        put(name, build.safetensors(["a.lora_A.weight", "a.lora_B.weight"]))(folder)
    assert faults(folder) <= {"pickle"}
    with (folder / name).open("r+b") as f:
        f.truncate((folder / name).stat().st_size - 30)
    assert faults(folder) & {"shard-truncated", "header-malformed"}
    (folder / name).unlink()
    assert faults(folder) == {"none"}


def test_a_command_cannot_serve_an_adapter_as_its_model(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    folder.mkdir()
    put("adapter_config.json", {"peft_type": "LORA"})(folder)
    put("adapter_model.safetensors", build.safetensors(["a.lora_A.weight"]))(folder)
    host = Host(Asked(command=("vllm", "serve", str(folder))), {"HOME": "/nonexistent"})
    assert not model_folder(host).weights


@given(st.text(alphabet="{}%#-'\"\\ if endif raw endraw set=x\n", max_size=200))
def test_any_template_is_read_to_its_end(text: str) -> None:
    unclosed(text)


@given(st.binary(max_size=300))
def test_any_vocabulary_is_read_to_its_end(data: bytes) -> None:
    sentencepiece_problem(b"\n" + data)
    tiktoken_problem(data)
    merges_problem(data)
