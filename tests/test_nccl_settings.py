"""NCCL's settings are read as NCCL reads them, and the network as the kernel shows it."""

from __future__ import annotations

import os
import pwd
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as unhurried
from hypothesis import strategies as st

from ds_doctor.host import Host
from ds_doctor.model import Trouble, Unseen
from ds_doctor.probes import network as net
from ds_doctor.probes.nccl_config import HIDDEN, nccl_config, parse_conf, parse_home, parse_nsswitch
from ds_doctor.probes.network import Interface, Network, network
from ds_doctor.replay import ReplayedHost, record
from ds_doctor.rooted import RootedHost
from ds_doctor_checks import _nccl_settings as settings
from probe_host import Tree

# -- files -------------------------------------------------------------------------------------------------------------


def test_the_environment_wins_then_the_named_file_then_the_system(tmp_path: Path) -> None:
    conf = tmp_path / "nccl.conf"
    conf.write_text("# NCCL_ALGO=x\nNCCL_DEBUG=WARN\nNCCL_IB_HCA==mlx5_0\nNCCL_DEBUG=INFO\nOTHER=1\n")
    fact = nccl_config(Host(env={"NCCL_CONF_FILE": str(conf), "NCCL_DEBUG": "TRACE", "PATH": "/bin"}))
    assert fact.settings["NCCL_DEBUG"].value == "TRACE" and fact.settings["NCCL_DEBUG"].hides == (str(conf),)
    assert (fact.settings["NCCL_IB_HCA"].value, fact.settings["NCCL_IB_HCA"].source) == ("=mlx5_0", str(conf))
    assert "OTHER" not in fact.settings and str(conf) in fact.files and fact.odd == ()


def test_a_named_file_that_is_gone_is_said(tmp_path: Path) -> None:
    gone = f"{tmp_path}/gone.conf"
    assert nccl_config(Host(env={"NCCL_CONF_FILE": gone})).missing == {"NCCL_CONF_FILE": gone}


def test_another_root_has_its_own_file(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/nccl.conf").write_text("NCCL_P2P_DISABLE=1\n")
    fact = nccl_config(RootedHost(str(tmp_path)))
    assert fact.settings["NCCL_P2P_DISABLE"].source == "/etc/nccl.conf"


def test_a_user_of_a_directory_has_the_file_in_home(tmp_path: Path) -> None:
    tree = Tree(tmp_path, env={"HOME": "/home/jo"})
    tree.put("/etc/passwd", "other:x:4294967000:0::/home/other:/bin/sh\n")
    tree.put("/home/jo/.nccl.conf", "NCCL_P2P_DISABLE=1\n")
    assert nccl_config(tree).settings == {}  # getpwuid gives nobody, and NCCL reads no such file
    tree.put("/etc/nsswitch.conf", "passwd: files sss\ngroup: files\n")
    assert nccl_config(tree).settings["NCCL_P2P_DISABLE"].source == "/home/jo/.nccl.conf"


def test_lines_that_nccl_takes_otherwise_than_they_look_are_said() -> None:
    text = "export NCCL_DEBUG=INFO\nNCCL_ALGO = ring\nNCCL_PROTO=LL\r\nNCCL_NET\n NCCL_X=1\nother line\n"
    values, odd = parse_conf(text, "/etc/nccl.conf")
    assert [(o.line, o.problem) for o in odd] == [
        (1, "export"),
        (2, "spaces"),
        (3, "carriage-return"),
        (4, "no-equals"),
        (5, "spaces"),
    ]
    assert values["NCCL_PROTO"] == "LL\r" and "NCCL_ALGO" not in values


def test_the_key_of_the_sockets_never_enters_the_fact() -> None:
    fact = nccl_config(Host(env={"NCCL_PSK": "0123456789abcdef0123456789abcdef"}))
    assert fact.settings["NCCL_PSK"].value == HIDDEN


def test_a_plugin_is_found_as_nccl_completes_its_name(tmp_path: Path) -> None:
    library = next(p for p in Path("/usr/lib").rglob("*.so*") if p.is_file() and p.read_bytes()[:4] == b"\x7fELF")
    (tmp_path / "libnccl-net-foo.so").symlink_to(library)
    there = {"LD_LIBRARY_PATH": str(tmp_path)}
    assert nccl_config(Host(env={**there, "NCCL_NET_PLUGIN": "foo"})).plugins == {"NCCL_NET_PLUGIN": True}
    assert nccl_config(Host(env={**there, "NCCL_NET_PLUGIN": "bar"})).plugins == {"NCCL_NET_PLUGIN": False}
    assert nccl_config(Host(env={"NCCL_NET_PLUGIN": "none"})).plugins == {}


def test_home_is_that_of_the_password_file() -> None:
    assert (
        parse_home(Path("/etc/passwd").read_text(errors="replace"), os.geteuid()) == pwd.getpwuid(os.geteuid()).pw_dir
    )


@given(st.text())
def test_any_text_is_a_configuration(text: str) -> None:
    parse_conf(text, "/etc/nccl.conf")
    parse_home(text, 0)
    parse_nsswitch(text)


@unhurried(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_configuration_file(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.conf"
    path.write_bytes(data)
    nccl_config(Host(env={"NCCL_CONF_FILE": str(path)}))


# -- the network -------------------------------------------------------------------------------------------------------


def test_the_interfaces_are_those_of_this_process() -> None:
    fact = network(Host())
    assert {i.name for i in fact.interfaces} == {name for _, name in socket.if_nameindex()}
    lo = next((i for i in fact.interfaces if i.name == "lo"), None)
    assert lo is None or lo.running in (True, False, None)


def test_what_was_recorded_gives_the_same_network() -> None:
    calls: dict[str, object] = {}
    live = network(record(Host(), calls))
    assert network(ReplayedHost(calls, {})) == live


def test_rdma_devices_are_read_with_their_ports() -> None:
    calls = {
        'read ["/proc/net/dev"]': {"text": "Inter-|   Receive\n face |bytes\n    lo: 0\n  ib0: 0\n"},
        'read ["/sys/class/net/ib0/flags"]': {"text": "0x1003\n"},
        'read ["/sys/class/net/ib0/operstate"]': {"text": "up\n"},
        'names ["/sys/class/infiniband"]': {"value": ["mlx5_0"]},
        'names ["/sys/class/infiniband/mlx5_0/ports"]': {"value": ["1"]},
        'read ["/sys/class/infiniband/mlx5_0/ports/1/state"]': {"text": "4: ACTIVE\n"},
        'read ["/sys/class/infiniband/mlx5_0/ports/1/rate"]': {"text": "400 Gb/sec (4X NDR)\n"},
        'read ["/sys/class/infiniband/mlx5_0/ports/1/link_layer"]': {"text": "InfiniBand\n"},
    }
    fact = network(ReplayedHost(calls, {}))
    assert fact == Network(
        interfaces=(Interface(name="lo"), Interface(name="ib0", running=True)),
        hcas=(net.Hca(name="mlx5_0", ports=(net.Port(port=1, state="ACTIVE", layer="InfiniBand", rate_gbps=400.0),)),),
    )


def test_another_root_has_no_network(tmp_path: Path) -> None:
    with pytest.raises(Unseen):
        network(RootedHost(str(tmp_path)))


@given(st.text(), st.text())
def test_any_text_is_a_network_or_refused(one: str, two: str) -> None:
    for parse in (net.parse_dev, net.parse_route, net.parse_if_inet6, net.parse_state, net.parse_rate):
        try:
            parse(one)
        except Trouble:
            pass
    net.is_running(one, two)


# -- how NCCL reads values ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "fits"),
    [
        ("eth", ["eth0", "eth1"]),
        ("=eth0", ["eth0"]),
        ("=eth0,lo", ["eth0", "lo"]),
        ("^eth", ["lo", "docker0"]),
        ("^=docker0", ["eth0", "eth1", "lo"]),
        ("eth0:1", ["eth0"]),
        ("ens99", []),
        ('"eth0"', []),
        ("^", []),
        (" eth0", []),
    ],
)
def test_lists_of_interfaces_fit_as_in_nccl(pattern: str, fits: list[str]) -> None:
    assert settings.matches(pattern, ["eth0", "eth1", "lo", "docker0"]) == fits


@pytest.mark.parametrize(
    ("text", "number", "whole"),
    [("1", 1, True), ("true", 0, False), ("8M", 8, False), ("0x10", 16, True), ("-1", -1, True), (" 2", 2, True), ("010", 8, True), ("", 0, False)],
)  # fmt: skip
def test_numbers_are_read_as_strtoll_does(text: str, number: int, whole: bool) -> None:
    assert settings.leading(text) == number
    assert (settings.whole(text) is not None) == whole


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("NCCL_P2P_DISABLED", "NCCL_P2P_DISABLE"),
        ("NCCL_SOCKET_IF_NAME", "NCCL_SOCKET_IFNAME"),
        ("NCCL_DISABLE_SHM", "NCCL_SHM_DISABLE"),
        ("NCCL_IB_DISALBE", "NCCL_IB_DISABLE"),
        ("NCCL_DEBG", "NCCL_DEBUG"),
        ("NCCL_WHOLLY_OTHER", None),
    ],
)
def test_a_slip_of_the_pen_is_told_from_another_name(name: str, meant: str | None) -> None:
    assert not settings.known(name) and settings.meant(name) == meant


def test_no_known_name_is_taken_for_a_slip() -> None:
    from ds_doctor_checks._data import table

    variables = table("nccl")["variables"]
    assert all(settings.known(n) for n in (*variables["known"], *variables["others"]))
    values = table("nccl")["values"]
    named = [*values["whole"], *values["exact"], *values["any_case"], "NCCL_ALGO", "NCCL_PROTO"]
    assert not [n for n in named if n not in variables["known"]]


@given(st.text(), st.text())
def test_any_value_is_judged(name: str, value: str) -> None:
    settings.leading(value)
    settings.matches(value, ["eth0"])
    settings.rejected_words("NCCL_ALGO", value)
    settings.wrong_value("NCCL_P2P_DISABLE", value)
    settings.one_slip(name, value)
    settings.meant("NCCL_" + name)
