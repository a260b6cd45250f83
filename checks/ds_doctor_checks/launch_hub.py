"""Fetching the model: offline mode, mirrors, ModelScope, download helpers and proxies of the launch."""

from __future__ import annotations

from ds_doctor.api import Findings, NotApplicable, Undecided, check, found, undecided
from ds_doctor.probes.engine_flags import EngineFlags
from ds_doctor.probes.environment import Environment
from ds_doctor.probes.launch import Launch
from ds_doctor.probes.model_folder import ModelFolder
from ds_doctor.probes.python_env import Packages
from ds_doctor.probes.python_path import PythonPath

from . import _hub as hub

FAMILY = "launch"


@check("launch-hub-offline")
def model_is_here_or_may_be_fetched(
    launch: Launch | None, environment: Environment | None, model: ModelFolder | None
) -> Findings:
    from ._environment import variables

    repo = hub.hub_id(launch)
    if launch is None or repo is None:
        raise NotApplicable("model-not-of-hub")
    name = hub.is_offline({n: v.value for n, v in variables(environment, launch).items()})
    if name is None:
        raise NotApplicable("hub-online")
    if launch.container is not None:
        raise Undecided("model-in-container")
    if model is not None and model.source == "command" and model.layout == "missing":
        yield found("launch-hub-offline", on=repo, model=repo, name=name)


@check("launch-hub-endpoint")
def hub_address_is_one(launch: Launch | None, environment: Environment | None, model: ModelFolder | None) -> Findings:
    from ._environment import variables

    given = variables(environment, launch)
    v = given.get("HF_ENDPOINT")
    if hub.hub_id(launch) is None:
        raise NotApplicable("model-not-of-hub")
    if v is None or not v.value or hub.is_offline({n: x.value for n, x in given.items()}):
        return
    if model is not None and model.hub is None and model.layout != "missing":
        return  # a folder of that name is taken as it is
    if not v.value.lower().startswith(("http://", "https://")):
        yield found("launch-hub-endpoint", on=v.name, value=v.value, source=v.source)


@check("launch-hub-token")
def gated_model_has_a_token(launch: Launch, environment: Environment | None, model: ModelFolder | None) -> Findings:
    from ._data import table
    from ._environment import variables

    repo = hub.hub_id(launch)
    if repo is None or not repo.startswith(tuple(table("env_common")["gated"]["names"])):
        raise NotApplicable("model-not-gated")
    names = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
    given = variables(environment, launch)
    c = launch.container
    if any(given.get(n) is not None for n in names) or (model is not None and model.layout == "folder"):
        return
    # The token may lie in a file of the host, or come with a volume or a file of variables.
    if (
        c is None
        or c.mounts
        or c.env_files
        or c.running
        or launch.unread
        or {*names} & {*c.env_inherited, *c.secrets_given}
    ):
        raise Undecided("token-unseen")
    yield found("launch-hub-token", on=repo, model=repo, program=c.program)


@check("launch-modelscope-missing")
def modelscope_is_installed(launch: Launch, environment: Environment | None, packages: Packages | None) -> Findings:
    from ._environment import variables

    name = {"vllm": "VLLM_USE_MODELSCOPE", "sglang": "SGLANG_USE_MODELSCOPE"}.get(launch.engine or "")
    v = variables(environment, launch).get(name) if name is not None else None
    if v is None or v.value.strip().lower() not in ("1", "true"):
        raise NotApplicable("modelscope-off")
    if launch.container is not None or packages is None or launch.engine not in packages.packages:
        raise Undecided("packages-unseen")
    if "modelscope" not in packages.packages:
        yield found("launch-modelscope-missing", on=v.name, name=v.name, python=packages.python)


@check("launch-hf-transfer-missing")
def download_helper_is_installed(
    launch: Launch | None, environment: Environment | None, packages: Packages | None, model: ModelFolder | None
) -> Findings:
    from ._environment import parse_version, variables

    v = variables(environment, launch).get("HF_HUB_ENABLE_HF_TRANSFER")
    if v is None or v.value.upper() not in hub.TRUE:
        raise NotApplicable("hf-transfer-off")
    if launch is None or launch.container is not None or packages is None or "huggingface-hub" not in packages.packages:
        raise Undecided("packages-unseen")
    # huggingface_hub 1.0 dropped hf_transfer and only warns of the variable.
    if parse_version(packages.packages["huggingface-hub"].version)[:1] >= (1,):
        raise NotApplicable("hf-transfer-gone")
    if "hf-transfer" not in packages.packages and hub.hub_id(launch) is not None and model is None:
        yield found("launch-hf-transfer-missing", on=v.name, python=packages.python)


@check("launch-proxy-localhost")
def engine_reaches_itself(launch: Launch, environment: Environment | None, flags: EngineFlags | None) -> Findings:
    from . import _ports, _proxies
    from ._environment import variables
    from ._options import options

    if launch.engine != "sglang":
        raise NotApplicable("no-request-to-itself")
    o = options(launch, flags)
    if not o.serves or o.config or o.get("skip_server_warmup") or o.get("ssl_certfile"):
        raise NotApplicable("no-request-to-itself")
    given = variables(environment, launch)
    proxy = _proxies.for_http(given)
    if proxy is None:
        return
    host = o.get("host")
    address = _ports.bind_address(host if isinstance(host, str) else None)
    address = "127.0.0.1" if address == _ports.ANY else address
    if address is None or not address.startswith("127."):
        raise Undecided("proxy-may-reach-it", host=str(host))
    if _proxies.bypassed(given, address):
        return
    if _proxies.is_here(_proxies.host_of(proxy.value)):
        # A proxy on this host may well lead back to it, unless it is outside the container that would be started.
        yield undecided("launch-proxy-localhost", "proxy-may-reach-it", host=address)
        return
    yield found(
        "launch-proxy-localhost",
        on=proxy.name,
        name=proxy.name,
        value=proxy.value,
        address=address,
        source=proxy.source,
    )


@check("launch-proxy-unusable", "launch-proxy-socks")
def proxies_can_be_used(environment: Environment | None, launch: Launch | None, packages: Packages | None) -> Findings:
    from . import _proxies
    from ._environment import variables

    given = variables(environment, launch)
    for v, said in _proxies.unusable(given):
        yield found("launch-proxy-unusable", on=v.name, name=v.name, value=v.value, said=said, source=v.source)
    one = _proxies.socks(given)
    if one is None:
        return
    if packages is None or "huggingface-hub" not in packages.packages or (launch is not None and launch.container):
        yield undecided("launch-proxy-socks", "packages-unseen")
    # httpx, which huggingface_hub uses from 1.0 on, wants socksio; requests before it wants PySocks.
    elif not {"socksio", "pysocks"} & set(packages.packages):
        yield found(
            "launch-proxy-socks", on=one.name, name=one.name, value=one.value, source=one.source, python=packages.python
        )


@check("launch-python-path")
def python_path_holds_no_source_tree(launch: Launch, paths: PythonPath) -> Findings:
    if launch.container is not None:
        raise NotApplicable("container-not-started")
    for folder in paths.folders:
        if launch.engine == "vllm" and "vllm" in folder.uncompiled:
            yield found("launch-python-path", on=folder.path, path=folder.path, name="vllm", how=folder.how)
        elif "torch" in folder.uncompiled and launch.engine is not None:
            yield found("launch-python-path", on=folder.path, path=folder.path, name="torch", how=folder.how)
