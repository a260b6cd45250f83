"""Each whole folder is found whole; each fault in one is found, and nothing else is said to have failed."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import weights_builder as build
from ds_doctor import engine
from ds_doctor.host import Asked, Host
from ds_doctor.model import Absent, Outcome, Reason, Result
from ds_doctor.probes.model_folder import ModelFolder, model_folder
from ds_doctor.replay import ReplayedHost, record
from ds_doctor.rooted import RootedHost
from support import doctor, module_checks

NEVER = {"weights-checksum-mismatch": "unknown"}


def look(model: Any, env: dict[str, str] | None = None, command: tuple[str, ...] = ()) -> ModelFolder:
    host = Host(Asked(model=None if model is None else str(model), command=command), env or {"HOME": "/nonexistent"})
    fact = model_folder(host)
    assert msgspec.json.decode(msgspec.json.encode(fact), type=ModelFolder) == fact  # nothing in it breaks JSON
    return fact


def judge(fact: ModelFolder) -> dict[str, Result]:
    checks = module_checks("weights")
    rules = {r for c in checks for r in c.rules}
    nothing = {f: Outcome(None, "absent", Reason("no-command")) for f in engine.wanted(checks)}
    facts = {**nothing, ModelFolder: Outcome(fact)}
    return {r.rule: r for r in engine.judge(checks, facts, doctor().catalogue, rules)}


def faults(fact: ModelFolder) -> set[str]:
    results = judge(fact)
    assert results["weights-checksum-mismatch"].status in ("unknown", "skip")
    assert not [r for r in results.values() if r.status == "error"]
    # That PyTorch's files are pickles is worth a note, and no fault of the folder.
    said = {r.rule for r in results.values() if r.status in ("fail", "warn", "note")} - {"weights-pickle"}
    return {rule.removeprefix("weights-") for rule in said}


WHOLE: dict[str, Callable[[Path], Path]] = {
    "shards with an index": build.sharded,
    "shards without an index": lambda p: build.sharded(p, index=False),
    "a single file": build.single,
    "one shard of one": lambda p: build.sharded(p, 1),
    "a hub snapshot": build.hub,
    "a hub repository's folder": lambda p: build.hub(p).parent.parent,
    "a single file without a folder": lambda p: build.single(p) / "model.safetensors",
}


@pytest.mark.parametrize("layout", WHOLE)
def test_a_whole_folder_is_found_whole(tmp_path: Path, layout: str) -> None:
    fact = look(WHOLE[layout](tmp_path / "m"))
    assert faults(fact) == set()
    results = judge(fact)
    assert results["weights-shard-truncated"].status == "pass"
    assert results["weights-checksum-mismatch"].status == "unknown"
    assert fact.weights_bytes == sum(f.expected_size or 0 for f in fact.weights)


def shard2(folder: Path) -> Path:
    return folder / build.shard(2, 3)


def cut(path: Path, by: int) -> None:
    with path.open("r+b") as f:
        f.truncate(path.stat().st_size - by)


def rewrite(tensors: dict[str, Any], data: bytes) -> Callable[[Path], None]:
    return lambda m: shard2(m).write_bytes(build.raw(build.header(tensors), data)) and None


def two(a: list[int], b: list[int], shape: list[int] | None = None, dtype: str = "U8") -> dict[str, Any]:
    names = build.names_in_shard(2)
    given = [a, b, [max(a[1], b[1]), max(a[1], b[1])]]
    return {
        n: {"dtype": dtype, "shape": shape if shape and i == 0 else [o[1] - o[0]], "data_offsets": o}
        for i, (n, o) in enumerate(zip(names, given, strict=True))
    }


def move_tensor(m: Path) -> None:
    build.edit_index(m, lambda i: i["weight_map"].update({build.names_in_shard(1)[0]: build.shard(2, 3)}))


def map_also(**more: str) -> Callable[[Path], None]:
    return lambda m: build.edit_index(m, lambda i: i["weight_map"].update(more))


def replace_with(maker: Callable[[Path], None]) -> Callable[[Path], None]:
    def act(m: Path) -> None:
        shard2(m).unlink()
        maker(shard2(m))

    return act


def unmap(m: Path) -> None:
    build.edit_index(m, lambda i: i["weight_map"].pop(build.names_in_shard(2)[0]))


FAULTS: dict[str, tuple[Callable[[Path], Any], set[str]]] = {
    "a shard gone": (lambda m: shard2(m).unlink(), {"shard-missing"}),
    "a shard cut": (lambda m: cut(shard2(m), 1), {"shard-truncated"}),
    "a shard cut in its header": (lambda m: cut(shard2(m), shard2(m).stat().st_size - 40), {"shard-truncated"}),
    "a shard cut in its first bytes": (lambda m: shard2(m).write_bytes(b"\x10\0\0"), {"header-malformed"}),
    "bytes after a shard's end": (lambda m: shard2(m).open("ab").write(b"x"), {"shard-oversized"}),
    "an empty shard": (lambda m: shard2(m).write_bytes(b""), {"file-empty"}),
    "a pointer": (lambda m: shard2(m).write_bytes(build.LFS), {"lfs-pointer"}),
    "a pointer for a tokenizer": (lambda m: (m / "tokenizer.json").write_bytes(build.LFS), {"lfs-pointer"}),
    "a pointer for an index": (
        lambda m: (m / "model.safetensors.index.json").write_bytes(build.LFS),
        {"lfs-pointer"},
    ),
    "an HTML page": (lambda m: shard2(m).write_bytes(b"<!DOCTYPE html><html><body>429"), {"not-weights"}),
    "an XML error": (
        lambda m: shard2(m).write_bytes(b'<?xml version="1.0"?><Error><Code>AccessDenied</Code>'),
        {"not-weights"},
    ),
    "a JSON error": (lambda m: shard2(m).write_bytes(b'{"error": "Repository not found"}'), {"not-weights"}),
    "a line of text": (lambda m: shard2(m).write_bytes(b"Access to model is restricted."), {"not-weights"}),
    "zero bytes": (lambda m: shard2(m).write_bytes(bytes(10_000)), {"not-weights"}),
    "GGUF under another name": (lambda m: shard2(m).write_bytes(build.gguf()), {"not-weights"}),
    "a header of 2^60 bytes": (
        lambda m: shard2(m).write_bytes((1 << 60).to_bytes(8, "little") + b"{}" * 100),
        {"header-malformed"},
    ),
    "a header that is no JSON": (lambda m: shard2(m).write_bytes(build.raw(b"{" + b"x" * 99)), {"header-malformed"}),
    "a header too deep": (lambda m: shard2(m).write_bytes(build.raw(b"[" * 90_000)), {"header-malformed"}),
    "overlapping tensors": (rewrite(two([0, 8], [4, 12]), bytes(12)), {"tensor-layout"}),
    "a gap": (rewrite(two([0, 8], [12, 16]), bytes(16)), {"tensor-layout"}),
    "a shape that does not fit": (rewrite(two([0, 8], [8, 16], [9]), bytes(16)), {"tensor-layout"}),
    "a shape beyond all bounds": (rewrite(two([0, 8], [8, 16], [2**62, 2**62]), bytes(16)), {"tensor-layout"}),
    "an unknown type": (rewrite(two([0, 8], [8, 16], dtype="F3_NEW"), bytes(16)), {"dtype-unknown", "total-size"}),
    "an index that is no JSON": (
        lambda m: (m / "model.safetensors.index.json").write_text('{"weight_map": {'),
        {"index-malformed"},
    ),
    "an index without a map": (
        lambda m: (m / "model.safetensors.index.json").write_text('{"weights": 1}'),
        {"index-malformed"},
    ),
    "an index too deep": (
        lambda m: (m / "model.safetensors.index.json").write_text("[" * 90_000),
        {"index-malformed"},
    ),
    "an index that leads out": (map_also(x="../../etc/passwd"), {"index-escapes"}),
    "an index that leads to the root": (map_also(x="/etc/passwd"), {"index-escapes"}),
    "a tensor in no shard": (map_also(x=build.shard(2, 3)), {"tensor-absent"}),
    "a head in no shard of an untied model": (map_also(**{"lm_head.weight": build.shard(2, 3)}), {"tensor-absent"}),
    "a tensor in the wrong shard": (move_tensor, {"tensor-misplaced"}),
    "two shards swapped": (
        lambda m: (
            os.rename(shard2(m), m / "x"),
            os.rename(m / build.shard(1, 3), shard2(m)),
            os.rename(m / "x", m / build.shard(1, 3)),
        ),
        {"tensor-misplaced"},
    ),
    "a shard copied over another": (
        lambda m: shard2(m).write_bytes((m / build.shard(1, 3)).read_bytes()),
        {"tensor-twice", "tensor-absent"},
    ),
    "a tensor not in the index": (unmap, {"tensor-not-indexed"}),
    "another total": (lambda m: build.edit_index(m, lambda i: i["metadata"].update(total_size=5)), {"total-size"}),
    "a shard too many": (lambda m: (m / "old.safetensors").write_bytes(build.safetensors(["x"])), {"extra-shards"}),
    "half a download": (lambda m: (m / "model.safetensors.aria2").write_bytes(b"x"), {"leftovers"}),
    "half a download of hf": (
        lambda m: (
            (m / ".cache/huggingface/download").mkdir(parents=True),
            (m / ".cache/huggingface/download/x.safetensors.abc.incomplete").write_bytes(b"x"),
        ),
        {"leftovers"},
    ),
    "a shard still as .part": (
        lambda m: os.rename(shard2(m), str(shard2(m)) + ".part"),
        {"leftovers", "shard-missing"},
    ),
    "a link to nothing": (replace_with(lambda p: p.symlink_to("../blobs/gone")), {"link-dangling"}),
    "a link to itself": (replace_with(lambda p: p.symlink_to(p.name)), {"link-dangling"}),
    "a FIFO": (replace_with(lambda p: os.mkfifo(p)), {"not-a-file"}),
    "a folder": (replace_with(lambda p: p.mkdir()), {"not-a-file"}),
    "a device": (replace_with(lambda p: p.symlink_to("/dev/zero")), {"not-a-file"}),
    "no configuration": (lambda m: (m / "config.json").unlink(), {"config-missing"}),
    "a malformed configuration": (lambda m: (m / "config.json").write_text("{'a': 1}"), {"config-malformed"}),
    "a configuration that is a list": (lambda m: (m / "config.json").write_text("[]"), {"config-malformed"}),
    "a configuration too deep": (lambda m: (m / "config.json").write_text("[" * 90_000), {"config-malformed"}),
    "an empty configuration": (lambda m: (m / "config.json").write_text(""), {"file-empty"}),
    "no tokenizer": (lambda m: (m / "tokenizer.json").unlink(), {"tokenizer-missing"}),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_and_nothing_else(tmp_path: Path, fault: str) -> None:
    folder = build.sharded(tmp_path / "m")
    act, expected = FAULTS[fault]
    act(folder)
    assert faults(look(folder)) == expected


def test_holes_in_the_numbers_are_found_without_an_index(tmp_path: Path) -> None:
    folder = build.sharded(tmp_path / "m", 5, index=False)
    (folder / build.shard(2, 5)).unlink()
    (folder / build.shard(5, 5)).unlink()
    fact = look(folder)
    assert faults(fact) == {"numbering-holes"}
    assert fact.numbering[0].missing.first == (build.shard(2, 5), build.shard(5, 5))


def test_shards_of_two_sets_are_found_without_an_index(tmp_path: Path) -> None:
    folder = build.sharded(tmp_path / "m", 2, index=False)
    build.sharded(folder, 3, index=False)
    assert faults(look(folder)) == {"numbering-mixed"}


def test_an_unreadable_shard_is_found(tmp_path: Path) -> None:
    folder = build.sharded(tmp_path / "m")

    class Guarded(Host):
        def _open(self, path: str) -> int:
            if path == str(shard2(folder)):
                raise PermissionError(13, "Permission denied")
            return super()._open(path)

    fact = model_folder(Guarded(Asked(model=str(folder)), {}))
    assert faults(fact) == {"unreadable"}
    assert judge(fact)["weights-shard-truncated"].status == "unknown"


def test_a_socket_in_place_of_the_folder_is_no_model(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(tmp_path / "s"))
        assert faults(look(tmp_path / "s")) == {"not-a-file"}


def test_nothing_given_is_absent() -> None:
    with pytest.raises(Absent, match="no-model-given"):
        look(None)


def test_a_path_that_is_not_there_is_a_fault(tmp_path: Path) -> None:
    assert faults(look(tmp_path / "gone")) == {"path-missing"}
    for target in ("gone", "link"):
        (tmp_path / "link").symlink_to(target)
        assert faults(look(tmp_path / "link")) == {"path-missing"}
        (tmp_path / "link").unlink()
    assert faults(look(None, command=("vllm", "serve", str(tmp_path / "gone")))) == {"path-missing"}


def test_an_empty_folder_with_a_files_name_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").mkdir()
    assert faults(look(tmp_path / "m.gguf")) == {"not-a-file"}


def test_an_empty_folder_has_no_weights(tmp_path: Path) -> None:
    assert faults(look(tmp_path)) == {"none"}


def test_a_name_that_breaks_lines_or_encodings_breaks_nothing(tmp_path: Path) -> None:
    folder = build.sharded(tmp_path / "m\n\udcff", index=False)
    (folder / "a\nb\udcfe.safetensors").write_bytes(b"")
    fact = look(folder)
    assert faults(fact) == {"file-empty"}
    assert "a\nb\ufffd.safetensors" in {f.name for f in fact.weights}


def test_a_hundred_thousand_files_are_bounded(tmp_path: Path) -> None:
    class Many(Host):
        def _names(self, path: str) -> list[str]:
            return [f"x{i}.safetensors" for i in range(100_000)]

    fact = model_folder(Many(Asked(model=str(tmp_path)), {}))
    assert (len(fact.weights), fact.weights_unseen) == (1000, 99_000)
    assert len(msgspec.json.encode(fact)) < 200_000


def test_a_header_of_a_hundred_megabytes_costs_nothing_and_is_unknown(tmp_path: Path) -> None:
    build.small(tmp_path)
    (tmp_path / "model.safetensors").write_bytes((90_000_000).to_bytes(8, "little") + b'{"a')
    os.truncate(tmp_path / "model.safetensors", 95_000_000)
    fact = look(tmp_path)
    assert faults(fact) == set()
    assert judge(fact)["weights-header-malformed"].status == "unknown"


def test_what_was_not_looked_into_is_unknown(tmp_path: Path) -> None:
    fact = msgspec.structs.replace(look(build.single(tmp_path)), weights_unseen=3)
    assert judge(fact)["weights-lfs-pointer"].status == "unknown"
    assert judge(fact)["weights-shard-truncated"].status == "unknown"


# -- false alarms that must not come ------------------------------------------------------------------------------


def test_a_consolidated_copy_beside_the_shards_is_no_extra(tmp_path: Path) -> None:
    folder = build.sharded(tmp_path / "m")
    (folder / "consolidated.safetensors").write_bytes(build.safetensors(["tok_embeddings.weight"]))
    assert faults(look(folder)) == set()


def test_a_tied_head_that_is_only_in_the_index_is_no_fault(tmp_path: Path) -> None:
    folder = build.sharded(tmp_path / "m")
    map_also(**{"lm_head.weight": build.shard(1, 3)})(folder)
    build.small(folder, tie_word_embeddings=True)
    assert faults(look(folder)) == set()
    config = json.loads((folder / "config.json").read_text())
    del config["tie_word_embeddings"]
    (folder / "config.json").write_text(json.dumps(config))
    fact = look(folder)
    assert faults(fact) == set()
    assert judge(fact)["weights-tensor-absent"].status == "unknown"


def test_numbers_with_holes_are_no_fault_where_the_index_says_so(tmp_path: Path) -> None:
    folder = build.sharded(tmp_path / "m")
    shard2(folder).unlink()
    build.edit_index(folder, lambda i: [i["weight_map"].pop(n) for n in build.names_in_shard(2)])
    assert faults(look(folder)) == {"total-size"}


def test_six_digit_totals_and_numbers_from_zero_are_whole(tmp_path: Path) -> None:
    build.small(tmp_path)
    for number in range(3):
        (tmp_path / f"model-{number:05}-of-000003.safetensors").write_bytes(build.safetensors([f"t{number}"]))
    assert faults(look(tmp_path)) == set()


def test_metadata_that_looks_like_a_tensor_is_metadata(tmp_path: Path) -> None:
    described, data = build.tensors_of(["a"])
    build.small(tmp_path)
    text = build.header(described, {"dtype": "F32", "shape": "x", "data_offsets": "y"})
    (tmp_path / "model.safetensors").write_bytes(build.raw(text, data))
    assert faults(look(tmp_path)) == set()


def test_pickles_are_noted_and_judged_as_archives(tmp_path: Path) -> None:
    build.small(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(build.torch_zip())
    (tmp_path / "training_args.bin").write_bytes(b"nothing of the model")
    fact = look(tmp_path)
    assert faults(fact) == set()
    results = judge(fact)
    assert results["weights-pickle"].status == "note"
    assert results["weights-shard-truncated"].status == "pass"
    assert results["weights-dtype-unknown"].status == "unknown"


def test_a_pickle_that_ends_before_its_directory_is_truncated(tmp_path: Path) -> None:
    build.small(tmp_path)
    whole = build.torch_zip(comment=b"c" * 60_000)
    (tmp_path / "pytorch_model.bin").write_bytes(whole)
    assert faults(look(tmp_path)) == set()
    (tmp_path / "pytorch_model.bin").write_bytes(whole[:400])
    assert faults(look(tmp_path)) == {"shard-truncated"}
    (tmp_path / "pytorch_model.bin").write_bytes(build.LEGACY + b"old pickle of torch before 1.6")
    fact = look(tmp_path)
    assert faults(fact) == set()
    assert judge(fact)["weights-shard-truncated"].status == "unknown"
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x02}q\x00.")
    assert faults(look(tmp_path)) == {"header-malformed"}


def test_an_index_of_files_that_were_left_out_counts_for_nothing_beside_pytorch_files(tmp_path: Path) -> None:
    folder = build.sharded(tmp_path)
    for shard in folder.glob("*.safetensors"):
        shard.unlink()
    assert faults(look(folder)) == {"none", "shard-missing"}
    for number in (1, 2):
        (folder / f"pytorch_model-{number:05}-of-00002.bin").write_bytes(build.torch_zip())
    assert faults(look(folder)) == set()
    (folder / "pytorch_model-00002-of-00002.bin").unlink()
    assert faults(look(folder)) == {"numbering-holes"}


def test_hidden_files_are_no_weights(tmp_path: Path) -> None:
    """What a Mac leaves beside each file that it copies; the engines' *.safetensors does not match it."""
    folder = build.sharded(tmp_path)
    (folder / "._model-00001-of-00003.safetensors").write_bytes(b"\0\5\26\7" + bytes(200))
    assert faults(look(folder)) == set()
    (folder / "model.safetensors.index.json").unlink()
    assert faults(look(folder)) == set()


def test_gguf_needs_no_configuration(tmp_path: Path) -> None:
    (tmp_path / "m-Q4_K_M.gguf").write_bytes(build.gguf())
    fact = look(tmp_path)
    assert faults(fact) == set()
    assert judge(fact)["weights-header-malformed"].status == "pass"
    (tmp_path / "m-Q4_K_M.gguf").write_bytes(b"\x01\x02\x03\x04rubbish")
    assert faults(look(tmp_path)) == {"not-weights"}


def test_files_that_no_engine_loads_may_be_pointers(tmp_path: Path) -> None:
    folder = build.sharded(tmp_path / "m")
    for name in ("pytorch_model.bin", "m.gguf"):
        (folder / name).write_bytes(build.LFS)
    assert faults(look(folder)) == set()
    (folder / "model.safetensors.index.json").unlink()
    assert faults(look(folder)) == set()


def test_a_consolidated_copy_must_be_whole_unless_the_engine_leaves_it_alone(tmp_path: Path) -> None:
    """vLLM's load format `auto` prefers consolidated*.safetensors to the shards of the index."""
    folder = build.sharded(tmp_path / "m")
    (folder / "consolidated.safetensors").write_bytes(build.LFS)
    assert faults(look(folder)) == {"lfs-pointer"}
    assert faults(look(None, command=("vllm", "serve", str(folder)))) == {"lfs-pointer"}
    assert faults(look(None, command=("vllm", "serve", str(folder), "--load-format", "safetensors"))) == set()
    serve = ("python3", "-m", "sglang.launch_server", "--model-path", str(folder))
    assert faults(look(None, command=serve)) == set()


@pytest.mark.parametrize("name", ["tokenizer.model.v3", "tokenizer.model.v7m1", "tokenizer.tok.json", "qwen.tiktoken"])
def test_tokenizers_under_their_rarer_names_are_tokenizers(tmp_path: Path, name: str) -> None:
    folder = build.single(tmp_path)
    (folder / "tokenizer.json").unlink()
    (folder / name).write_bytes(b"\x0a\x0e")
    assert faults(look(folder)) == set()


@pytest.mark.parametrize("name", ["tokenizer.json", "tekken.json", "vocab.json", "preprocessor_config.json"])
def test_a_vocabulary_that_was_cut_off_is_found(tmp_path: Path, name: str) -> None:
    folder = build.single(tmp_path)
    whole = json.dumps({f"token{i}": i for i in range(2000)})
    (folder / name).write_text(whole + "\n")
    assert faults(look(folder)) == set()
    (folder / name).write_text(whole[:20000])
    assert faults(look(folder)) == {"config-malformed"}
    (folder / name).write_bytes(build.LFS)
    assert faults(look(folder)) == {"lfs-pointer"}


def test_the_parts_of_a_diffusers_pipeline_are_its_weights(tmp_path: Path) -> None:
    (tmp_path / "model_index.json").write_text('{"_class_name": "FluxPipeline"}')
    build.sharded(tmp_path / "transformer")
    build.single(tmp_path / "vae")
    fact = look(tmp_path)
    assert faults(fact) == set()
    assert judge(fact)["weights-config-missing"].status == "unknown"
    assert {f.name for f in fact.weights} >= {"vae/model.safetensors", "transformer/model-00001-of-00003.safetensors"}
    cut(tmp_path / "vae" / "model.safetensors", 1)
    shard2(tmp_path / "transformer").unlink()
    assert faults(look(tmp_path)) == {"shard-truncated", "shard-missing"}


def test_missing_shards_are_named_with_as_many_digits_as_their_siblings(tmp_path: Path) -> None:
    build.small(tmp_path)
    for number in (1, 2, 12):
        (tmp_path / f"model-{number}-of-12.safetensors").write_bytes(build.safetensors([f"t{number}"]))
    fact = look(tmp_path)
    assert faults(fact) == {"numbering-holes"}
    assert fact.numbering[0].missing.first[0] == "model-3-of-12.safetensors"


def test_the_draft_layers_beside_an_index_are_loaded_and_no_stray(tmp_path: Path) -> None:
    folder = build.sharded(tmp_path / "m")
    (folder / "mtp.safetensors").write_bytes(build.safetensors(["mtp"]))
    assert faults(look(folder)) == set()
    cut(folder / "mtp.safetensors", 1)
    assert faults(look(folder)) == {"shard-truncated"}


def test_an_index_may_name_files_in_folders_and_of_any_name(tmp_path: Path) -> None:
    folder = build.single(tmp_path)
    (folder / "model.safetensors").unlink()
    (folder / "part").mkdir()
    (folder / "part" / "x.safetensors").write_bytes(build.safetensors(["a"]))
    (folder / "optimizer_like.safetensors").write_bytes(build.safetensors(["b"]))
    build.write_index(folder, {"a": "part/x.safetensors", "b": "./optimizer_like.safetensors"}, 128)
    assert faults(look(folder)) == set()
    cut(folder / "part" / "x.safetensors", 1)
    assert faults(look(folder)) == {"shard-truncated"}
    (folder / "part" / "x.safetensors").unlink()
    assert faults(look(folder)) == {"shard-missing"}


def test_a_gguf_repository_with_its_quantisation_is_found_or_downloaded(tmp_path: Path) -> None:
    env = {"HF_HUB_CACHE": str(tmp_path)}
    with pytest.raises(Absent, match="model-not-downloaded"):
        look(None, env, ("vllm", "serve", "org/name-GGUF:Q4_K_M"))
    build.hub(tmp_path, "org/name-GGUF")
    assert faults(look(None, env, ("vllm", "serve", "org/name-GGUF:Q4_K_M"))) == set()


def test_a_model_under_another_root_is_found_whole(tmp_path: Path) -> None:
    build.hub(tmp_path / "cache")
    (tmp_path / "m").symlink_to(f"/cache/models--org--name/snapshots/{build.COMMIT}")
    fact = model_folder(RootedHost(str(tmp_path), Asked(model="/m")))
    assert faults(fact) == set()


def test_recorded_calls_give_the_same_fact_again(tmp_path: Path) -> None:
    folder = build.hub(tmp_path)
    shard2(folder).unlink()
    calls: dict[str, Any] = {}
    asked = Asked(model=str(folder))
    fact = model_folder(record(Host(asked, {}), calls))
    kept = json.loads(msgspec.json.encode(calls))
    assert model_folder(ReplayedHost(kept, {}, asked)) == fact


# -- the hub cache --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "env",
    [
        {"HF_HUB_CACHE": "{0}"},
        {"HF_HOME": "{0}/.."},
        {"XDG_CACHE_HOME": "{0}/../.."},
        {"HOME": "{0}/../../.."},
    ],
    ids=str,
)
def test_a_hub_id_is_found_in_the_cache(tmp_path: Path, env: dict[str, str]) -> None:
    cache = tmp_path / ".cache" / "huggingface" / "hub"
    snapshot = build.hub(cache)
    given = {k: os.path.normpath(v.format(cache)) for k, v in env.items()}
    for fact in (look("org/name", given), look(None, given, ("vllm", "serve", "org/name", "--port", "1"))):
        assert fact.path == str(snapshot)
        assert fact.hub is not None and fact.hub.commit == build.COMMIT
        assert faults(fact) == set()


def test_a_hub_id_that_is_not_cached_is_downloaded_by_the_engine(tmp_path: Path) -> None:
    env = {"HF_HUB_CACHE": str(tmp_path)}
    with pytest.raises(Absent, match="model-not-downloaded"):
        look(None, env, ("vllm", "serve", "org/other"))
    assert faults(look(None, env | {"HF_HUB_OFFLINE": "1"}, ("vllm", "serve", "org/other"))) == {"path-missing"}
    assert faults(look("org/other", env)) == {"path-missing"}


def test_a_reference_to_a_snapshot_that_is_gone_is_found(tmp_path: Path) -> None:
    snapshot = build.hub(tmp_path)
    (snapshot.parent.parent / "refs" / "main").write_text("0" * 40)
    fact = look("org/name", {"HF_HUB_CACHE": str(tmp_path)})
    assert faults(fact) == {"hub-ref-broken"}
    (snapshot.parent.parent / "refs" / "main").write_text("../../../etc")
    assert faults(look("org/name", {"HF_HUB_CACHE": str(tmp_path)})) == {"hub-ref-broken"}


def test_one_snapshot_needs_no_reference_and_two_do(tmp_path: Path) -> None:
    snapshot = build.hub(tmp_path, ref=None)
    env = {"HF_HUB_CACHE": str(tmp_path)}
    assert faults(look("org/name", env)) == set()
    (snapshot.parent / ("1" * 40)).mkdir()
    assert faults(look("org/name", env)) == {"hub-ref-broken"}


def test_half_a_blob_is_told_and_a_missing_one_is_a_fault(tmp_path: Path) -> None:
    snapshot = build.hub(tmp_path)
    blobs = snapshot.parent.parent / "blobs"
    blob = (snapshot / build.shard(2, 3)).resolve()
    (blobs / "abc.incomplete").write_bytes(b"half")
    assert faults(look(snapshot)) == {"leftovers"}
    os.rename(blob, blob.with_name("x.incomplete"))
    assert faults(look(snapshot)) == {"leftovers", "link-dangling"}


def test_locks_of_the_hub_cache_are_no_leftovers(tmp_path: Path) -> None:
    snapshot = build.hub(tmp_path)
    (snapshot.parent.parent / "blobs" / "abc.lock").write_bytes(b"")
    (tmp_path / ".locks").mkdir()
    assert faults(look(snapshot)) == set()
