"""A file for -f that is wrong, hostile or huge is one line and little time and memory, whatever it is."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ds_doctor.launch.command import parse
from ds_doctor.launch.file import services
from ds_doctor.launch.problem import Problem
from ds_doctor.launch.structs import Launch
from support import doctor

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - name: c\n    image: vllm/vllm-openai:v1\n"
BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{c}: &{c} [{','.join(['*' + p] * 9)}]\n" for p, c in zip("abcdefgh", "bcdefghi", strict=True)
)
DEEP = "a: " + "{a: " * 300 + "1" + "}" * 300
BAD = {
    "empty.yaml": (b"", "launch-file-empty"),
    "blank.yaml": (b"\n \n\n", "launch-file-empty"),
    "binary.yaml": (b"services:\0\x01\x02", "launch-file-binary"),
    "elf": (b"\x7fELF\x02\x01\x01\0\0\0", "launch-file-binary"),
    "latin.yaml": ("services: {a: {image: é}}".encode("latin-1"), "launch-file-binary"),
    "utf-16.yaml": ("services: {a: {image: x}}".encode("utf-16"), "launch-file-binary"),
    "tab.yaml": (b"services:\n\tllm:\n\t  image: x\n", "launch-file-not-yaml"),
    "quote.yaml": (b'services:\n  llm:\n    image: "x\n', "launch-file-not-yaml"),
    "bracket.yaml": (b"services: {llm: {image: x}\n", "launch-file-not-yaml"),
    "deep.yaml": (DEEP.encode(), "launch-file-too-deep"),
    "deep.json": (b'{"services":' + b"[" * 5000 + b"]" * 5000 + b"}", "launch-file-too-deep"),
    "bomb.yaml": (BOMB.encode() + b"services: {llm: {image: x, command: *i}}", "launch-file-bomb"),
    "cycle.yaml": (b"services: &s {llm: *s}", "launch-file-cyclic"),
    "cycle-list.yaml": (b"services:\n  llm:\n    command: &c [a, *c]\n", "launch-file-cyclic"),
    "extends.yaml": (b"services: {a: {extends: b}, b: {extends: a}}", "launch-file-cyclic"),
    "alias.yaml": (b"services: {llm: *nobody}", "launch-file-not-yaml"),
    "tag.yaml": (b"services: !!python/object/apply:os.system ['true']", "launch-file-tag"),
    "name.yaml": (b"services: !!python/name:os.system", "launch-file-tag"),
    "tag2.yaml": (b"services: {llm: !include other.yaml}", "launch-file-tag"),
    "helm.yaml": (b"kind: Deployment\nspec:\n  replicas: {{ .Values.replicas }}\n", "launch-file-template"),
    "jinja.yaml": (b"services:\n{% for m in models %}\n  {{ m }}: {}\n{% endfor %}\n", "launch-file-not-yaml"),
    "other.yaml": (b"name: something\nsteps: [a, b]\n", "launch-file-unknown"),
    "scalar.yaml": (b"just text", "launch-file-unknown"),
    "kinds.yaml": (b"apiVersion: v1\nkind: Service\nmetadata: {name: x}\n", "launch-file-no-engine"),
    "crd.yaml": (b"apiVersion: x.example/v9\nkind: Whatever\nspec: {a: {b: [c]}}\n", "launch-file-no-engine"),
    "null.yaml": (b"services:\n", "launch-file-unknown"),
    "list.yaml": (b"services: [a, b]\n", "launch-file-unknown"),
    "web.yaml": (b"services: {web: {image: nginx}}\n", "launch-file-no-engine"),
    "Dockerfile": (b"FROM vllm/vllm-openai:v0.33.0\nRUN true\n", "launch-file-dockerfile"),
    "x.service": (b"[Unit]\nDescription=x\n[Service]\nType=simple\n", "launch-unit-no-command"),
    "quote.sh": (b"vllm serve 'm\n", "launch-quotes-open"),
    "nothing.sh": (b"echo hello\n", "launch-file-no-engine"),
    "many.yaml": ("".join(f"---\n{POD.replace('name: p', f'name: p{i}')}" for i in range(80)).encode(), "launch-file-too-many"),
    "values.yaml": (b"services: {llm: {image: x, command: [" + b"a," * 70_000 + b"]}}", "launch-file-too-much"),
    "documents.yaml": (b"---\na: b\n" * 600, "launch-file-too-much"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_has_one_reason(name: str) -> None:
    data, reason = BAD[name]
    begun = time.process_time()
    with pytest.raises(Problem) as problem:
        services(data, name, name, {})
    assert problem.value.reason == reason, problem.value.data
    assert time.process_time() - begun < 20  # a bound, no measurement
    text = doctor().catalogue.reason[reason].say("en", problem.value.data)
    assert "\n" not in text and "?" not in text


FINE = {
    "crlf.yaml": POD.replace("\n", "\r\n").encode(),
    "bom.yaml": b"\xef\xbb\xbf" + POD.encode(),
    "twice.yaml": POD.replace("spec:", "spec: {}\nspec:").encode(),  # as Kubernetes reads it, the last one counts
    "numbers.yaml": (POD + "    resources: {limits: {nvidia.com/gpu: 1e400, memory: 99999999999999999999Gi}}\n"
                     "    livenessProbe: {httpGet: {port: 99999999999999999999}, periodSeconds: -3, failureThreshold: 1e9}\n").encode(),
    "booleans.yaml": POD.replace("spec:\n", "spec:\n  hostIPC: yes\n").encode(),
    "wrong-types.yaml": (POD + "    resources: [1]\n    env: {a: b}\n    ports: x\n    volumeMounts: [x, {mountPath: []}]\n").encode(),
    "compose-wrong-types.yaml": b"services: {llm: {image: 'vllm/vllm-openai:v1', ports: {a: b}, volumes: 3, environment: 4, deploy: [], gpus: {}, ulimits: [], healthcheck: 1, tmpfs: {}, extends: 7}}",
    "no-engine-but-gpus.yaml": b"services: {llm: {image: my/llm, gpus: all}}",
}  # fmt: skip


@pytest.mark.parametrize("name", FINE)
def test_an_odd_file_is_read_as_its_program_reads_it(name: str) -> None:
    (one,) = services(FINE[name], name, name, {})
    msgspec.json.encode(one)


def test_truth_of_yaml_1_1_and_the_last_of_two_keys_count() -> None:
    (one,) = services(FINE["booleans.yaml"], "b.yaml", "b.yaml", {})
    assert one.deployment.pod is not None and one.deployment.pod.host_ipc
    (one,) = services(FINE["twice.yaml"], "b.yaml", "b.yaml", {})
    assert one.launch.engine == "vllm"


def run(*words: str, data: bytes = b"", memory_mib: int | None = None) -> subprocess.CompletedProcess[bytes]:
    def limit() -> None:
        if memory_mib is not None:
            resource.setrlimit(resource.RLIMIT_AS, (memory_mib << 20, memory_mib << 20))

    command = [sys.executable, "-m", "ds_doctor", "run", *words, "--lang", "en"]
    return subprocess.run(command, input=data, capture_output=True, timeout=60, preexec_fn=limit)


@pytest.mark.parametrize(
    ("made", "says"),
    [
        ("missing", "No such file or directory"),
        ("folder", "not a regular file"),
        ("fifo", "not a regular file"),
        ("loop", "Too many levels of symbolic links"),
        ("denied", "Permission denied"),
        ("huge", "larger than 4 MiB"),
        ("sparse", "larger than 4 MiB"),
        ("tab", ":2: not valid YAML"),
        ("template", ":1: a template that is not rendered ({{ .Values"),
    ],
)
def test_what_cannot_be_read_is_one_line(made: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    if made == "folder":
        path.mkdir()
    elif made == "fifo":
        os.mkfifo(path)
    elif made == "loop":
        path.symlink_to(path)
    elif made == "denied":
        path.write_text(POD)
        path.chmod(0)
        if os.access(path, os.R_OK):
            pytest.skip("root may read everything")
    elif made in ("huge", "sparse"):
        with path.open("wb") as f:
            if made == "huge":
                f.write(b"- a\n" * (100 << 18))
            else:
                f.truncate(100 << 20)
    elif made == "tab":
        path.write_text("services:\n\tllm: {}\n")
    elif made == "template":
        path.write_text("{{ .Values.x }}\n")
    done = run("-f", str(path), memory_mib=1024)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.count(b"\n") <= 2 and says in done.stderr.decode()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["-f", ""], "--file: the value is empty"),
        (["-f", "-", "--service", "web"], "--service web: no such service in - (there: p)"),
        (["--service", "web"], "--service: it chooses a service of the file given with -f"),
        (["-f", "-", "--", "vllm", "serve", "m"], "-f takes the launch command from the file"),
    ],
)
def test_options_that_do_not_go_together_are_one_line(words: list[str], says: str) -> None:
    done = run(*words, data=POD.encode())
    assert (done.returncode, done.stdout) == (2, b"")
    assert says in done.stderr.decode()


def test_standard_input_that_never_ends_is_one_line() -> None:
    with open("/dev/zero", "rb") as zero:
        command = [sys.executable, "-m", "ds_doctor", "run", "-f", "-"]
        done = subprocess.run(command, stdin=zero, capture_output=True, timeout=60)
    assert done.returncode == 2 and done.stderr.count(b"\n") <= 2


# -- junk ----------------------------------------------------------------------------------------------------------

WORDS = st.sampled_from(
    (
        *("vllm", "serve", "sglang", "python3", "-m", "sglang.launch_server", "docker", "run", "podman", "--gpus", "all", "-v"),
        *("bash", "-c", "env", "-i", "A=b", "$X", "${X:-y}", "$(id)", "`id`", "'", '"', "\\", "--", "-", "", "=", "--tp", "8", "-e"),
        *("torchrun", "numactl", "-N", "srun", "uv", "nohup", "sudo", "-u", "exec", "vllm serve 'm", "&&", ">", "|", ";", "\0"),
        *("--mount", "type=bind,source", "--ulimit", "nofile=", "-p", "99999:1", "--shm-size", "9e9g", "vllm/vllm-openai:v1"),
    )
) | st.text(max_size=12)  # fmt: skip


@given(st.lists(WORDS, max_size=12))
@example(["bash", "-c", "bash -c 'bash -c \"bash -c vllm\"'"])
def test_no_words_break_the_reader_of_commands(words: list[str]) -> None:
    assert isinstance(parse(words), Launch)
    msgspec.json.encode(parse(words))


LINES = st.lists(
    st.sampled_from(
        (
            *("services:", "  llm:", "    image: vllm/vllm-openai:v1", "    command: [a, 'b']", "    ports: [1]", "- x", "    gpus: all"),
            *("apiVersion: v1", "kind: Pod", "spec:", "  containers:", "  - name: c", "---", "{", "}", "&a", "*a", "<<: *a", "? x", "|"),
            *("[Service]", "ExecStart=vllm serve m", "Environment=A=1 'b", "ExecStart=", "\\", "#!/bin/sh", "vllm serve m", "cat <<E"),
            *("if true; then", "fi", "A=(1 2)", 'x="', "$(", "${A[@]}", "vllm serve ${A[@]} \\", "  deploy: {resources: 3}"),
        )
    )
    | st.text(max_size=20),
    max_size=14,
).map("\n".join)  # fmt: skip


@given(LINES, st.sampled_from(("f.yaml", "f.json", "f.service", "f.sh", "f", "compose.yml")))
def test_no_text_breaks_the_reader_of_files(text: str, name: str) -> None:
    try:
        data = text.encode()
    except UnicodeEncodeError:
        return
    try:
        got = services(data, name, name, {})
    except Problem as p:
        assert p.reason in doctor().catalogue.reason
        return
    msgspec.json.encode(got)
    for one in got:
        assert all(u.id in doctor().catalogue.reason for u in one.launch.unread)


@given(st.binary(max_size=80), st.sampled_from(("f.yaml", "f.service", "f.sh", "f")))
def test_no_bytes_break_the_reader_of_files(data: bytes, name: str) -> None:
    try:
        services(data, name, name, {})
    except Problem as p:
        assert p.reason in doctor().catalogue.reason
