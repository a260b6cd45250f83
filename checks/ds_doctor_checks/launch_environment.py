"""Environment variables of the launch: does the engine read each, and as it was meant?"""

from __future__ import annotations

from ds_doctor.api import Findings, NotApplicable, check, found, not_applicable, undecided
from ds_doctor.probes.engine_flags import EngineFlags
from ds_doctor.probes.environment import HIDDEN, Environment
from ds_doctor.probes.launch import Launch
from ds_doctor.probes.python_env import Packages, TorchBuild

FAMILY = "launch"
# Only these entries start the engine itself: `vllm bench` and its like never evaluate all variables.
SERVES = ("vllm serve", "vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server")


def _engine(launch: Launch | None) -> str | None:
    return launch.engine if launch is not None else None


@check("launch-env-misspelt", "launch-env-flag-name")
def variables_are_ones_that_somebody_reads(environment: Environment | None, launch: Launch | None) -> Findings:
    from . import _environment as env
    from ._data import table

    for v in env.variables(environment, launch).values():
        engine = env.engine_of(v.name)
        flag = table("env_common")["flags"].get(v.name)
        if flag is not None and not env.is_read(v.name):
            yield found("launch-env-flag-name", on=v.name, name=v.name, flag=flag, source=v.source)
            continue
        if engine is not None and (env.is_read(v.name) or env.is_service(v.name)):
            continue
        if v.name.startswith("SGL_") and env.is_read("SGLANG_" + v.name[4:]):
            continue  # an old name, of which another rule speaks
        meant = env.meant(v.name)
        if meant is not None:
            yield found("launch-env-misspelt", on=v.name, name=v.name, meant=meant, source=v.source)
        elif engine is not None:
            yield undecided("launch-env-misspelt", "env-name-unknown", name=v.name, engine=env.ENGINES[engine])


@check("launch-env-value-refused", "launch-env-port-is-address")
def values_are_ones_that_vllm_accepts(
    environment: Environment | None, launch: Launch | None, packages: Packages | None
) -> Findings:
    from . import _environment as env

    if launch is None or launch.engine != "vllm":
        raise NotApplicable("env-not-vllm")
    if launch.entry not in SERVES:
        raise NotApplicable("env-not-serving")
    given = env.variables(environment, launch)
    version = env.engine_version(launch, packages, "vllm")
    known = env.known("vllm")
    for v in given.values():
        if v.value == HIDDEN:
            continue
        said = env.refusal("vllm", v.name, v.value)
        if said is None:
            continue
        if v.name == "VLLM_PORT" and "://" in v.value:
            yield found("launch-env-port-is-address", on=v.name, value=v.value, source=v.source)
            continue
        since = known.strict.get(v.name, known.version)
        number = env.parse_version(version) if version else env.parse_version(known.version)
        if not env.parse_version(since) <= number <= env.parse_version(known.version):
            yield undecided(
                "launch-env-value-refused", "env-other-release", name=v.name, version=version, known=known.version
            )
            continue
        yield found("launch-env-value-refused", on=v.name, name=v.name, value=v.value, said=said, source=v.source)


@check("launch-env-value-off", "launch-env-value-default")
def values_are_read_as_they_look(environment: Environment | None, launch: Launch | None) -> Findings:
    from . import _environment as env

    for v in env.variables(environment, launch).values():
        engine = env.engine_of(v.name)
        if engine is None or v.value == HIDDEN or _engine(launch) not in (None, engine):
            continue
        taken = env.misread(engine, v.name, v.value)
        if taken == "off":
            yield found("launch-env-value-off", on=v.name, name=v.name, value=v.value, source=v.source)
        elif taken is not None and v.value:
            yield found(
                "launch-env-value-default",
                on=v.name,
                name=v.name,
                value=v.value,
                kind=env.known(engine).kinds[v.name],
                source=v.source,
            )


@check("launch-env-removed", "launch-env-replaced", "launch-env-renamed", "launch-env-too-new")
def variables_belong_to_this_release(
    environment: Environment | None, launch: Launch | None, packages: Packages | None
) -> Findings:
    from . import _environment as env
    from ._data import table

    for v in env.variables(environment, launch).values():
        engine = env.engine_of(v.name)
        if engine is None or _engine(launch) not in (None, engine):
            continue
        known = env.known(engine)
        version = env.engine_version(launch, packages, engine)
        here = env.parse_version(version or known.version)
        names = table(f"env_{engine}")
        instead = names["instead"].get(v.name)
        gone = known.gone.get(v.name)
        name = env.ENGINES[engine]
        if v.name.startswith("SGL_"):
            new = "SGLANG_" + v.name[4:]
            if env.is_read(new):
                yield found("launch-env-renamed", on=v.name, name=v.name, new=new, engine=name, source=v.source)
            continue
        if v.name in names.get("aliases", {"names": ""})["names"].split():
            yield found("launch-env-renamed", on=v.name, name=v.name, new=instead, engine=name, source=v.source)
            continue
        if gone is not None and here >= env.parse_version(gone):
            data = {
                "name": v.name,
                "engine": name,
                "version": version or known.version,
                "gone": gone,
                "source": v.source,
            }
            if instead is None:
                yield found("launch-env-removed", on=v.name, **data)
            else:
                yield found("launch-env-replaced", on=v.name, instead=instead, **data)
        since = known.since.get(v.name)
        if (
            since is not None
            and version is not None
            and env.parse_version(known.oldest) <= here < env.parse_version(since)
        ):
            yield found(
                "launch-env-too-new", on=v.name, name=v.name, engine=name, version=version, since=since, source=v.source
            )


@check("launch-env-other-engine")
def variables_are_of_the_engine_that_starts(environment: Environment | None, launch: Launch | None) -> Findings:
    from . import _environment as env

    engine = _engine(launch)
    if launch is None or engine not in env.ENGINES:
        raise NotApplicable("no-command")
    others = [
        v
        for v in env.variables(environment, launch).values()
        if env.engine_of(v.name) not in (None, engine) and not env.is_service(v.name) and v.name.count("_") > 1
    ]
    # What an image or a profile sets for everybody is no mistake of this command.
    mine = [v for v in others if v.source != "environment"]
    if mine:
        yield found(
            "launch-env-other-engine",
            names=", ".join(v.name for v in mine[:6]),
            engine=env.ENGINES[engine],
            other=env.ENGINES["sglang" if engine == "vllm" else "vllm"],
            source=mine[0].source,
        )


@check("launch-env-log-level")
def log_level_is_one_that_python_has(environment: Environment | None, launch: Launch | None) -> Findings:
    from . import _environment as env

    if launch is None or launch.engine != "vllm":
        raise NotApplicable("env-not-vllm")
    given = env.variables(environment, launch)
    level, configure = given.get("VLLM_LOGGING_LEVEL"), given.get("VLLM_CONFIGURE_LOGGING")
    if (
        level is None
        or "VLLM_LOGGING_CONFIG_PATH" in given
        or (configure is not None and configure.value.strip() == "0")
    ):
        return
    # vllm 0.33.0 logger.py: dictConfig takes the name as it is, in capitals; measured for these and for VERBOSE, 10, TRACE.
    if level.value.upper() not in ("CRITICAL", "FATAL", "ERROR", "WARNING", "WARN", "INFO", "DEBUG", "NOTSET"):
        yield found("launch-env-log-level", on=level.name, value=level.value, source=level.source)


@check("launch-env-debugging", "launch-env-wrong-answers", "launch-env-opens-door", "launch-env-long-context")
def variables_are_meant_for_serving(environment: Environment | None, launch: Launch | None) -> Findings:
    from . import _environment as env

    given = env.variables(environment, launch)
    topics = {
        "launch-env-debugging": "debugging",
        "launch-env-wrong-answers": "wrong_answers",
        "launch-env-opens-door": "opens",
        "launch-env-long-context": "long_context",
    }
    for rule, topic in topics.items():
        for v in env.listed(topic, given):
            if env.engine_of(v.name) in (None, _engine(launch)) or launch is None:
                yield found(rule, on=v.name, name=v.name, value=v.value, source=v.source)


@check("launch-alloc-conf-refused", "launch-alloc-conf-both")
def torch_accepts_its_allocator_settings(
    environment: Environment | None, launch: Launch | None, torch: TorchBuild | None
) -> Findings:
    from . import _alloc_conf as conf
    from . import _environment as env

    given = env.variables(environment, launch)
    there = [given[n] for n in conf.VARIABLES if n in given]
    if not there:
        yield not_applicable("launch-alloc-conf-both", "alloc-conf-unset")
        return
    release = env.parse_version(torch.version) if torch and (launch is None or launch.container is None) else None
    first = there[0]
    if len(there) == 2 and {*conf.pairs(there[0].value)} != {*conf.pairs(there[1].value)}:
        yield found(
            "launch-alloc-conf-both", wins=f"{first.name}={first.value}", void=f"{there[1].name}={there[1].value}"
        )
    if first.name == "PYTORCH_ALLOC_CONF" and release is not None and release[:2] < conf.READ_ALSO_SINCE:
        return
    refused = conf.refusal(first.value)
    unknown = conf.unknown(first.value)
    if refused is None and unknown is not None and release is not None and release[:2] == conf.NEWEST:
        refused = (unknown, f"Unrecognized key '{unknown}' in Accelerator allocator config.")
    if refused is not None:
        yield found(
            "launch-alloc-conf-refused",
            on=first.name,
            name=first.name,
            part=refused[0],
            said=refused[1],
            source=first.source,
        )
    elif unknown is not None:
        yield undecided("launch-alloc-conf-refused", "alloc-conf-key-unknown", key=unknown)


@check("launch-expandable-segments")
def expandable_segments_fit_the_features(
    environment: Environment | None, launch: Launch | None, packages: Packages | None, flags: EngineFlags | None
) -> Findings:
    from . import _alloc_conf as conf
    from . import _environment as env
    from ._options import options

    if launch is None or launch.engine is None:
        raise NotApplicable("no-command")
    v = env.variables(environment, launch).get("PYTORCH_CUDA_ALLOC_CONF")
    if v is None or not conf.expandable(v.value):
        raise NotApplicable("expandable-segments-off")
    o = options(launch, flags)
    version = env.engine_version(launch, packages, launch.engine)
    release = env.parse_version(version) if version else None
    feature = None
    # The engines look for these letters: a blank before the value hides it from them, not from torch.
    if "expandable_segments:True" not in v.value:
        return
    if launch.engine == "sglang":
        # torch_memory_saver 0.0.10 entrypoint.py _sanity_checks
        feature = "--enable-memory-saver" if o.get("enable_memory_saver") else None
    elif o.of("kv_transfer_config") and not o.get("enable_sleep_mode") and not o.get("enable_cumem_allocator"):
        # vllm config/vllm.py; the check is in the wheels from 0.22.0 on.
        feature = "--kv-transfer-config" if release is None or release >= (0, 22) else None
    elif o.get("enable_sleep_mode") and release is not None and release < (0, 21):
        # vllm device_allocator/cumem.py asserts it up to 0.20; 0.22 switches them off around its pool.
        feature = "--enable-sleep-mode"
    if feature is not None:
        yield found("launch-expandable-segments", on=v.name, name=v.name, feature=feature, source=v.source)
