"""SGLang's start-up checks of the serving surface: media, TLS, gRPC, sidecar; sglang 0.5.23 serving_hook.py."""

from __future__ import annotations

import json
from typing import Any

from ._launch_refusal import no
from ._sglang_view import Refusals, View


def media_urls(v: View) -> Refusals:
    if v.media_url_max_file_size_mb < 0:
        yield no("media-size", "media_url_max_file_size_mb must be non-negative", "media_url_max_file_size_mb")
        return
    for domain in v.allowed_media_domains or ():
        said = _domain(domain)
        if said:
            yield no("media-domain", said, "allowed_media_domains")
            return


def _domain(given: str) -> str | None:
    """What the engine says of a domain that it does not take."""
    import ipaddress

    domain = given.strip().rstrip(".")
    if not domain:
        return "allowed media domains cannot be empty"
    if "://" in domain or any(c in domain for c in "/?#@"):
        return f"Invalid allowed media domain {domain!r}: provide a hostname only"
    if domain.startswith("[") and domain.endswith("]"):
        domain = domain[1:-1]
    try:
        ipaddress.ip_address(domain)
        return None
    except ValueError:
        pass
    if ":" in domain:
        return f"Invalid allowed media domain {domain!r}: ports are not supported"
    try:
        return None if domain.encode("idna") else "allowed media domains cannot be empty"
    except UnicodeError:
        return f"Invalid allowed media domain {domain!r}"


def multimodal(v: View) -> Refusals:
    size = v.mm_preprocess_cache_size_mb
    if size is not None and size < 0:
        yield no("mm-cache-size", "mm_preprocess_cache_size_mb must be non-negative", "mm_preprocess_cache_size_mb")
    config = v.mm_process_config
    if config is None:
        return
    if not isinstance(config, dict):
        said = f"mm_process_config must be a dict, but got {type(config)}"
        yield no("mm-process-config", said, "mm_process_config", kind="TypeError")
        return
    for key in ("image", "video", "audio"):
        if key in config and not isinstance(config[key], dict):
            said = f"mm_process_config['{key}'] must be a dict, but got {type(config[key])}"
            yield no("mm-process-config", said, "mm_process_config", kind="TypeError")
            return


def tls(v: View) -> Refusals:
    """handle_ssl_validation; whether the files exist is not asked here."""
    key, certificate = v.ssl_keyfile, v.ssl_certfile
    if key and not certificate:
        yield no("ssl-pair", "--ssl-keyfile requires --ssl-certfile to be specified as well.", "ssl_keyfile")
    elif certificate and not key:
        yield no("ssl-pair", "--ssl-certfile requires --ssl-keyfile to be specified as well.", "ssl_certfile")
    elif not certificate and v.ssl_ca_certs:
        yield no("ssl-alone", "--ssl-ca-certs has no effect without --ssl-certfile and --ssl-keyfile.", "ssl_ca_certs")
    elif not certificate and v.ssl_keyfile_password:
        said = "--ssl-keyfile-password has no effect without --ssl-certfile and --ssl-keyfile."
        yield no("ssl-alone", said, "ssl_keyfile_password")
    if v.enable_ssl_refresh and not (certificate and key):
        said = "--enable-ssl-refresh requires --ssl-certfile and --ssl-keyfile to be specified."
        yield no("ssl-refresh", said, "enable_ssl_refresh")
    if v.enable_http_worker_reuseport and (v.tokenizer_worker_num == 1 or v.enable_http2):
        yield no(
            "http-reuseport",
            "--enable-http-worker-reuseport requires --tokenizer-worker-num > 1 and has no effect with --enable-http2.",
            "enable_http_worker_reuseport",
        )
    if v.enable_http2:
        if not 0 < v.http2_max_concurrent_streams < 2**32:
            said = "--http2-max-concurrent-streams must be between 1 and 4294967295."
            yield no("http2-streams", said, "http2_max_concurrent_streams")
        elif not 1024 <= v.http2_initial_connection_window_size < 2**31:
            said = "--http2-initial-connection-window-size must be between 1024 and 2147483647."
            yield no("http2-window", said, "http2_initial_connection_window_size")
        elif v.enable_ssl_refresh and certificate and key:
            yield no(
                "http2-refresh",
                "--enable-ssl-refresh is not supported with --enable-http2. Granian does not support SSL certificate "
                "hot-reloading. Use Uvicorn (the default) or handle certificate rotation externally.",
                "enable_ssl_refresh",
            )


def speech(v: View) -> Refusals:
    for name in ("asr_max_buffer_seconds", "asr_max_concurrent_sessions"):
        value = getattr(v, name)
        if value <= 0:
            yield no("asr-positive", f"--{name.replace('_', '-')} must be positive (got {value}).", name)


def grpc(v: View) -> Refusals:
    """handle_deprecated_args."""
    if v.disable_fast_image_processor:
        if v.image_processor_backend not in ("auto", "pil"):
            yield no(
                "image-processor",
                f"--disable-fast-image-processor conflicts with --image-processor-backend={v.image_processor_backend}.",
                "disable_fast_image_processor",
                "image_processor_backend",
            )
    port = v.grpc_port
    legacy = bool(v.smg_grpc_mode or v.grpc_mode)
    by_variable = v.environment.get("SGLANG_GRPC_PORT", "").strip()
    if port is None and by_variable.isdigit():
        port = int(by_variable)
    if legacy and port is None:
        port = v.port + 10000
    v.declare(grpc_port=port, smg_grpc_mode=legacy)
    if v.grpc_response_timeout_secs <= 0:
        yield no("grpc-timeout", "--grpc-response-timeout-secs must be positive", "grpc_response_timeout_secs")
    if port is not None and not 1 <= port <= 65535:
        said = f"--grpc-port / SGLANG_GRPC_PORT ({port}) must be between 1 and 65535"
        yield no("grpc-port-range", said, "grpc_port")
    yield from _sidecar(v, legacy)
    if port is None or legacy:
        return
    if v.use_ray:
        yield no(
            "grpc-ray",
            "--grpc-port is not supported with --use-ray: the Ray serve launch path does not start the native gRPC server.",
            "grpc_port",
            "use_ray",
        )
    if v.encoder_only:
        yield no(
            "grpc-encoder",
            "--grpc-port is not supported with --encoder-only: encoder disaggregation uses its own server.",
            "grpc_port",
            "encoder_only",
        )
    if v.tokenizer_worker_num > 1:
        yield no(
            "grpc-workers",
            "Native gRPC does not yet support --tokenizer-worker-num > 1. Unset --grpc-port or set --tokenizer-worker-num 1.",
            "grpc_port",
            "tokenizer_worker_num",
        )
    if v.api_key or v.admin_api_key:
        yield no(
            "grpc-key",
            "--grpc-port is incompatible with --api-key/--admin-api-key: the native gRPC listener bypasses HTTP auth middleware.",
            "grpc_port",
            "api_key" if v.api_key else "admin_api_key",
        )


def _sidecar(v: View, legacy: bool) -> Refusals:
    words: Any = v.sidecar_args
    if words is not None:
        if v.sidecar is None:
            yield no("sidecar", "--sidecar-args requires --sidecar.", "sidecar_args")
        elif not isinstance(words, list) or not all(isinstance(w, str) for w in words):
            yield no("sidecar", "--sidecar-args must be a JSON array of strings.", "sidecar_args")
    if v.sidecar is None:
        return
    if not v.sidecar.strip():
        yield no("sidecar", "--sidecar must not be empty.", "sidecar")
    elif legacy:
        yield no(
            "sidecar",
            "--sidecar requires SGLang's native gRPC server; it cannot be combined with --smg-grpc-mode/--grpc-mode.",
            "sidecar",
        )
    elif v.grpc_port is None:
        yield no("sidecar", "--sidecar requires --grpc-port or SGLANG_GRPC_PORT.", "sidecar")


def batching(v: View) -> Refusals:
    if v.enable_tokenizer_batch_encode and v.enable_dynamic_batch_tokenizer:
        yield no(
            "tokenizer-batching",
            "Cannot enable both --enable-tokenizer-batch-encode and --enable-dynamic-batch-tokenizer. Please choose one "
            "tokenizer batching approach.",
            "enable_tokenizer_batch_encode",
            "enable_dynamic_batch_tokenizer",
        )


def transport(v: View) -> Refusals:
    """handle_multimodal_feature_transport, as far as the arguments decide."""
    wanted = v.mm_feature_transport
    if v.encoder_only:
        return
    if wanted == "cuda_vmm" and v.pp_size != 1:
        said = "--mm-feature-transport=cuda_vmm does not support pipeline parallelism."
        yield no("mm-transport", said, "mm_feature_transport", "pp_size")
    if wanted == "cuda_ipc" and v.nnodes != 1:
        said = "--mm-feature-transport=cuda_ipc only supports a single node."
        yield no("mm-transport", said, "mm_feature_transport", "nnodes")


def requests(v: View) -> Refusals:
    """handle_other_validations."""
    kwargs = v.default_chat_template_kwargs
    if kwargs is not None and not isinstance(kwargs, dict):
        said = "--default-chat-template-kwargs must decode to a JSON object"
        yield no("chat-template-kwargs", said, "default_chat_template_kwargs")
    limits = v.limit_mm_data_per_request
    if isinstance(limits, str) and limits:
        try:
            limits = json.loads(limits)
        except ValueError as e:
            yield no("mm-limit", str(e), "limit_mm_data_per_request", kind="JSONDecodeError")
            limits = None
    if limits and isinstance(limits, dict):
        for modality in limits:
            if modality not in ("image", "video", "audio"):
                yield no(
                    "mm-limit",
                    f"Invalid modality '{modality}' in --limit-mm-data-per-request.Allowed modalities are: "
                    f"{['image', 'video', 'audio']}",
                    "limit_mm_data_per_request",
                )
                break
    about = "preferred_sampling_params"
    preferred = v.preferred_sampling_params
    if isinstance(preferred, str) and preferred:
        try:
            preferred = json.loads(preferred)
        except ValueError as e:
            yield no("preferred-sampling", str(e), about, kind="JSONDecodeError")
            return
    if preferred and not isinstance(preferred, (dict, list, str)):
        said = f"argument of type '{type(preferred).__name__}' is not iterable"
        yield no("preferred-sampling", said, about, kind="TypeError")
    elif preferred and "watermark" in preferred:
        yield no("preferred-sampling", "watermark is not supported in --preferred-sampling-params", about)
