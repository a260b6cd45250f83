"""Ports of a launch: real sockets are found with their owners, and what stands in the way is told from what does not."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds_doctor.gather import ask
from ds_doctor.host import Asked, Host
from ds_doctor.model import Malformed
from ds_doctor.probes import ports
from ds_doctor.probes.launch import parse
from ds_doctor_checks import _ports
from ds_doctor_checks._options import options
from probe_host import Tree, only_trouble


@contextmanager
def listening(address: str, family: int = socket.AF_INET, v6_only: bool | None = None) -> Iterator[int]:
    with socket.socket(family) as s:
        if v6_only is not None:
            s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, v6_only)
        s.bind((address, 0))
        s.listen()
        yield s.getsockname()[1]


def seen(port: int, *more: str) -> ports.Ports:
    outcome = ask(Host(Asked(command=("vllm", "serve", "m", "--port", str(port), *more))), ports.Ports)
    assert isinstance(outcome.fact, ports.Ports), outcome
    return outcome.fact


def test_a_listening_socket_is_found_with_the_process_that_holds_it() -> None:
    with listening("127.0.0.1") as port:
        (one,) = [s for s in seen(port).listening if s.port == port]
    assert one.address == "127.0.0.1" and one.uid == os.geteuid()
    assert one.pid == os.getpid()
    assert one.program == Path("/proc/self/comm").read_text().strip()


def test_a_port_that_nobody_listens_on_is_free() -> None:
    with listening("127.0.0.1") as port:
        pass
    assert not [s for s in seen(port).listening if s.port == port]


def test_a_secret_in_the_owners_command_is_not_shown(tmp_path: Path) -> None:
    tree = Tree(tmp_path, asked=Asked(command=("vllm", "serve", "m")))
    head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    tree.put(
        "/proc/net/tcp",
        head
        + "   0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 77 1 0 100 0 0 10 0\n",
    )
    tree.put("/proc/12/cmdline", b"/opt/bin/vllm\0serve\0m\0--api-key\0sk-very-secret\0")
    tree.put("/proc/12/comm", "vllm\n")
    (tmp_path / "proc/12/fd").mkdir()
    os.symlink("socket:[77]", tmp_path / "proc/12/fd/3")
    fact = ask(tree, ports.Ports).fact
    assert fact.listening[0].pid == 12 and fact.listening[0].command.startswith("vllm serve m --api-key")
    assert "secret" not in fact.listening[0].command


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("0100007F:1F40", ("127.0.0.1", 8000)),
        ("00000000000000000000000000000000:0016", ("::", 22)),
        ("B80D01200000000000000000FF000000:01BB", ("2001:db8::ff", 443)),
        ("0000000000000000FFFF00000100007F:1F40", ("::ffff:127.0.0.1", 8000)),
    ],
)
def test_the_kernels_spelling_of_an_address_is_understood(text: str, want: tuple[str, int]) -> None:
    address, port = ports.parse_address(text)
    assert (address, port) == want or (address.replace("7f00:1", "127.0.0.1"), port) == want


@given(st.text(max_size=200))
def test_no_table_breaks_the_parsers(text: str) -> None:
    only_trouble(lambda t: list(ports.parse_listening(t)), text)
    only_trouble(ports.parse_local, text)
    only_trouble(ports.parse_if_inet6, text)
    ports.parse_range(text)
    ports.parse_may_bind(text)


def test_a_line_that_is_no_socket_is_said() -> None:
    with pytest.raises(Malformed):
        list(ports.parse_listening("head\n 0: ZZ:1 0:0 0A 0 0 0 0 0 1\n"))


def test_own_addresses_are_the_local_leaves() -> None:
    text = (
        "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 10.0.0.0\n        /24 link UNICAST\n     |-- 10.0.0.5\n        /32 host LOCAL\n"
        "     |-- 10.0.0.255\n        /32 link BROADCAST\n     |-- 127.0.0.1\n        /32 host LOCAL\n"
    )
    assert ports.parse_local(text) == ("10.0.0.5", "127.0.0.1")


def wants(command: str) -> dict[str, int]:
    launch = parse(tuple(command.split()))
    return {w.what: w.port for w in _ports.wants(launch, options(launch, None), {})}


@pytest.mark.parametrize(
    ("command", "want"),
    [
        ("vllm serve m", {"--port": 8000}),
        ("vllm serve m --port=8001 --uds /tmp/s", {}),
        ("vllm serve m --headless", {}),
        ("vllm serve m --nnodes 2 --master-addr n0", {"--port": 8000, "--master-port": 29501}),
        ("vllm serve m --nnodes 2 --node-rank 1 --master-addr n0", {"--port": 8000}),
        ("vllm serve m -dp 4 -dpl 2", {"--port": 8000, "--data-parallel-rpc-port": 29550}),
        ("vllm serve m -dp 4", {"--port": 8000}),
        ("sglang serve m", {"--port": 30000}),
        ("sglang serve m --port 70000", {}),
        ("sglang serve m --nccl-port 28000", {"--port": 30000, "--nccl-port": 28000}),
        ("sglang serve m --dist-init-addr n0:20000 --nnodes 2 --node-rank 1", {"--port": 30000}),
        ("sglang serve m --dist-init-addr [::1]:20000", {"--port": 30000, "--dist-init-addr": 20000}),
        ("nvidia-smi", {}),
    ],
)
def test_the_ports_of_a_command_are_known(command: str, want: dict[str, int]) -> None:
    assert wants(command) == want


def test_data_parallel_attention_takes_the_ports_after_its_first() -> None:
    found = wants("sglang serve m --tp 4 --dp-size 2 --enable-dp-attention")
    assert sorted(found.values()) == [30000, 30233, 30234, 30235, 30236, 30237, 30238]
    assert max(wants("sglang serve m --port 65500 --tp 4 --dp-size 2 --enable-dp-attention").values()) < 65536


def bound(*addresses: tuple[str, int], reuse: bool = True) -> bool:
    """Whether a socket of the second address can be bound while one of the first listens, as uvicorn and vLLM bind them."""
    (first, family), (second, other) = addresses
    with socket.socket(family) as a, socket.socket(other) as b:
        for s in (a, b):
            if s.family == socket.AF_INET6:
                s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        a.bind((first, 0))
        a.listen()
        try:
            b.bind((second, a.getsockname()[1]))
        except OSError:
            return False
        return True


@pytest.mark.parametrize("there", ["127.0.0.1", "0.0.0.0", "::1"])
@pytest.mark.parametrize("wanted", ["127.0.0.1", "0.0.0.0", "127.0.0.2", "::1", "::"])
def test_the_kernel_agrees_about_what_stands_in_the_way(there: str, wanted: str) -> None:
    family = {True: socket.AF_INET6, False: socket.AF_INET}
    try:
        free = bound((there, family[":" in there]), (wanted, family[":" in wanted]))
    except OSError:
        pytest.skip("no IPv6 here")
    held = ports.Socket(address=there, port=9)
    assert _ports.blocks(held, _ports.Want(what="--port", port=9, address=wanted)) is (not free)
