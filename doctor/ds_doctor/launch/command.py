"""A launch command's words to a Launch: wrappers are looked through, the engine's entry and arguments told apart.

It never fails and never guesses: what is not understood stays None and is named in `unread`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from .structs import Container, Launch, Unread
from .variables import is_secret
from .variables import parse as without_secrets
from .words import OPEN, hidden, number, option, without_redirections

# Each engine's names: vllm 0.33.0 vllm/engine/arg_utils.py, sglang 0.5.23 sglang/srt/server_args.py. SGLang takes
# unambiguous abbreviations, of which --tp and --dp are in every recipe.
_SIZES = {
    "tensor_parallel": ("--tensor-parallel-size", "-tp", "--tp-size", "--tp"),
    "pipeline_parallel": ("--pipeline-parallel-size", "-pp", "--pp-size", "--pp"),
    "data_parallel": ("--data-parallel-size", "-dp", "--dp-size", "--dp"),
    "nodes": ("--nnodes", "-n"),
}
_MODEL = ("--model", "--model-path")
_PYTHON = re.compile(r"(pypy|python)[0-9.]*\Z")
# Images whose entry point is the engine's own command, so that what follows the image are its arguments (vllm
# docker/Dockerfile: ENTRYPOINT ["vllm", "serve"]; older ones ["python3", "-m", "vllm.entrypoints.openai.api_server"], as
# vllm-project/vllm#17172 has it for 0.8; which release changed it is not certain, so only what is surely older counts).
# lmsysorg/sglang has none.
_ENTRY_IMAGE = re.compile(r"(^|/)vllm-openai(:|$)")
_SERVES_SINCE = (0, 11, 0)
_OLD_ENTRY = "vllm.entrypoints.openai.api_server"


class Found:
    """What the wrappers said on the way to the engine's own words."""

    def __init__(self, known: Mapping[str, str] | None = None) -> None:
        self.known = known  # variables whose values are known where the command will run
        self.argv: list[str] = []
        self.environment: dict[str, str] = {}
        self.container: Container | None = None
        self.wrappers: list[str] = []
        self.folder: str | None = None
        self.unread: list[Unread] = []
        self.nodes: int | None = None
        self.deep = 0

    def miss(self, reason: str, **data: object) -> None:
        one = Unread(reason, dict(data))
        if one not in self.unread:
            self.unread.append(one)


def parse(command: Sequence[str], known: Mapping[str, str] | None = None) -> Launch:
    """What the command says. It never fails: what is not understood stays None."""
    from .wrappers import unwrap

    found = Found(known)
    found.argv = without_redirections(command)
    unwrap(found)
    return launch_of(found)


def launch_of(found: Found) -> Launch:
    """The Launch out of the engine's own words and what stood around them."""
    argv, container = found.argv, found.container
    engine, python, entry, rest = engine_of(argv, container)
    sizes = {name: number(rest, flags) for name, flags in _SIZES.items()}
    sizes["nodes"] = sizes["nodes"] or found.nodes
    unclear = tuple(dict.fromkeys(w for w in hidden(argv) if OPEN.search(w) and not w.startswith("{")))
    environment = {n: v for n, v in found.environment.items() if is_secret(n) or not OPEN.search(v)}
    missing = [n for n in found.environment if n not in environment]
    if engine is not None and (unclear or missing):
        found.miss("launch-words-open", words=[*unclear, *missing])
    model = _model(engine, entry, rest)
    return Launch(
        argv=hidden(argv),
        engine=engine,
        entry=entry,
        arguments=hidden(rest),
        python=python,
        model=None if model is None or OPEN.search(model) else model,
        environment=without_secrets(environment),
        container=container,
        wrappers=tuple(found.wrappers),
        folder=found.folder,
        open=unclear,
        unread=tuple(found.unread),
        **sizes,
    )


def entry_of_image(image: str | None) -> str | None:
    """The entry that an image starts by itself: `vllm serve`, the module of older vllm-openai images, or None."""
    name = (image or "").partition("@")[0]
    if not _ENTRY_IMAGE.search(name):
        return None
    m = re.search(r":v?(\d+)\.(\d+)\.(\d+)", name)
    if m and tuple(int(n) for n in m.groups()) < _SERVES_SINCE:
        return _OLD_ENTRY
    return "vllm serve"


def engine_of(argv: list[str], container: Container | None) -> tuple[str | None, str | None, str | None, list[str]]:
    """(engine, interpreter, entry, the entry's arguments)."""
    if container is not None and container.entrypoint is None and not container.running:
        entry = entry_of_image(container.image)
        if entry is not None:
            return "vllm", None, entry, argv
    name = argv[0].rpartition("/")[2] if argv else ""
    if name in ("vllm", "sglang"):
        return (name, None, *_verb(name, argv[1:]))
    if _PYTHON.match(name):
        return _of_python(argv)
    return None, None, None, argv


def _of_python(argv: list[str]) -> tuple[str | None, str | None, str | None, list[str]]:
    i = 1
    while i < len(argv):
        word = argv[i]
        module = argv[i + 1] if word == "-m" and i + 1 < len(argv) else word[2:] if word.startswith("-m") else None
        if module:
            top = module.partition(".")[0]
            rest = argv[i + 2 :] if word == "-m" else argv[i + 1 :]
            if module in ("vllm", "sglang"):  # python -m vllm serve ...
                return (module, argv[0], *_verb(module, rest))
            return (top if top in ("vllm", "sglang") else None), argv[0], module, rest
        if word in ("-W", "-X", "--check-hash-based-pycs"):
            i += 2
            continue
        if word == "-c":
            return None, argv[0], None, argv[i:]
        if not word.startswith("-"):
            # python /opt/venv/bin/vllm serve ...
            script = word.rpartition("/")[2]
            if script in ("vllm", "sglang"):
                return (script, argv[0], *_verb(script, argv[i + 1 :]))
            module = _module_of(word)
            if module is not None:
                return module.partition(".")[0], argv[0], module, argv[i + 1 :]
            return None, argv[0], None, argv[i + 1 :]
        i += 1
    return None, argv[0], None, []


def _module_of(path: str) -> str | None:
    """`.../vllm/entrypoints/openai/api_server.py` as a module: how torchrun and old recipes start an engine."""
    m = re.search(r"(?:^|/)((?:vllm|sglang)(?:/\w+)+)\.py\Z", path)
    return m[1].replace("/", ".") if m else None


def _verb(program: str, words: list[str]) -> tuple[str, list[str]]:
    """The sub-command of `vllm` or `sglang`, and its arguments."""
    if words and not words[0].startswith("-"):
        return f"{program} {words[0]}", words[1:]
    return program, words


def _model(engine: str | None, entry: str | None, rest: list[str]) -> str | None:
    given = option(rest, _MODEL)
    if given is not None or engine is None:
        return given
    # `vllm serve MODEL`, `sglang serve MODEL`: the first word behind the verb.
    if entry in ("vllm serve", "sglang serve") and rest and not rest[0].startswith("-"):
        return rest[0]
    return None
