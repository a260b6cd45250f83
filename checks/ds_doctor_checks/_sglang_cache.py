"""SGLang's start-up checks of the KV cache: pages, chunks, dtype, host tiers, eviction; sglang 0.5.23 kv_cache_hook.py, hicache_hook.py."""

from __future__ import annotations

from ._launch_refusal import bad, no
from ._sglang_view import Refusals, View

# memory_hook.py: the sizes that the engine chooses by the memory of the GPU.
_CHUNKS = (2048, 4096, 8192, 16384)


def host_part(v: View) -> Refusals:
    """handle_hicache_ratio_default."""
    part = v.hicache_host_memory_fraction
    if part is not None and not 0 < part <= 1:
        said = "--hicache-host-memory-fraction must be in (0, 1]."
        yield no("hicache-fraction", said, "hicache_host_memory_fraction")


def offload(v: View) -> Refusals:
    """handle_offload_compatibility."""
    if v.ple_offload_embedding and (v.cpu_offload_gb > 0 or v.offload_group_size > 0):
        yield no(
            "ple-offload",
            "--ple-offload-embedding cannot be combined with --cpu-offload-gb or --offload-group-size: generic layer offload would "
            "stage the pinned PLE embedding back to the device.",
            "ple_offload_embedding",
            "cpu_offload_gb" if v.cpu_offload_gb > 0 else "offload_group_size",
        )
    if v.ple_offload_backend == "file" and v.ple_offload_embedding is False:
        yield no(
            "ple-offload",
            "--ple-offload-backend file requires --ple-offload-embedding: the file-backed table is the offloaded table.",
            "ple_offload_backend",
            "ple_offload_embedding",
        )


def without(v: View) -> Refusals:
    """validate_prefill_only_disable_kv_cache_args."""
    if not v.prefill_only_disable_kv_cache:
        return
    about, name = "prefill_only_disable_kv_cache", "--prefill-only-disable-kv-cache"
    for wrong, said, dest in (
        (
            not v.is_embedding,
            " currently requires --is-embedding. Other prefill-only workloads may be supported in a future change once their "
            "attention paths stop reading or writing the paged KV cache.",
            "is_embedding",
        ),
        (
            v.kv_cache_dtype in ("nvfp4", "fp4_mx_block16"),
            " does not currently support --kv-cache-dtype=nvfp4 or --kv-cache-dtype=fp4_mx_block16 because the FP4 pool uses a "
            "separate allocation path.",
            "kv_cache_dtype",
        ),
        (
            v.kv_cache_dtype == "mxfp8",
            " does not currently support --kv-cache-dtype=mxfp8 because the MXFP8 pool stores separate scale-factor buffers.",
            "kv_cache_dtype",
        ),
        (
            v.chunked_prefill_size != -1,
            " requires --chunked-prefill-size=-1 so the FA backend takes the fa_skip_kv_cache path; otherwise the pool would be "
            "touched between prefill chunks.",
            "chunked_prefill_size",
        ),
        (
            not v.disable_radix_cache,
            " requires --disable-radix-cache because the radix cache indexes KV pool slots that no longer hold real data.",
            "disable_radix_cache",
        ),
        (
            v.attn_cp_size > 1,
            " is incompatible with --attn-cp-size > 1: the context-parallel attention path writes K/V to the pool via "
            "set_kv_buffer, which the no-op pool intentionally rejects.",
            "attn_cp_size",
        ),
        (
            v.enable_prefill_cp,
            " is incompatible with --enable-prefill-cp: the prefill-CP path stages K/V through the paged cache, which the no-op "
            "pool does not support.",
            "enable_prefill_cp",
        ),
        (
            v.enable_hisparse,
            " is incompatible with --enable-hisparse: HiSparse uses a dedicated pool family that is not the no-op MHA pool.",
            "enable_hisparse",
        ),
    ):
        if wrong:
            yield no("no-kv-cache", name + said, about, dest)
            return


def tiers(v: View) -> Refusals:
    """handle_hicache."""
    config = v.unified_cache_external_linker_config
    if config is not None and not isinstance(config, dict):
        said = "--unified-cache-external-linker-config must be a JSON object."
        yield no("linker-config", said, "unified_cache_external_linker_config")
    linker = v.enable_unified_cache_external_linker
    if v.enable_linker_mla_dedup and not (linker and v.unified_cache_external_linker_backend == "mooncake"):
        yield no("linker-dedup", "--enable-linker-mla-dedup requires the Mooncake linker.", "enable_linker_mla_dedup")
    if linker:
        name, about = "--enable-unified-cache-external-linker", "enable_unified_cache_external_linker"
        if v.disable_radix_cache or v.radix_cache_backend is not None:
            said = f"{name} requires the default UnifiedRadixCache with radix caching enabled."
            yield no("linker-radix", said, about, "disable_radix_cache")
        elif v.enable_hierarchical_cache:
            said = f"{name} and --enable-hierarchical-cache are mutually exclusive."
            yield no("linker-hicache", said, about, "enable_hierarchical_cache")
        elif v.hicache_storage_backend is not None:
            said = f"{name} does not use --hicache-storage-backend."
            yield no("linker-hicache", said, about, "hicache_storage_backend")
        return
    decode = v.disaggregation_mode == "decode" and v.disaggregation_decode_retraction_backup in (None, "host_pool")
    if not (v.enable_hierarchical_cache or v.disaggregation_decode_enable_offload_kvcache or decode):
        return
    if v.hicache_host_memory_mode == "buffer_only":
        if v.hicache_storage_backend is None:
            yield no(
                "hicache-buffer",
                "--hicache-host-memory-mode buffer_only requires a storage backend (--hicache-storage-backend): host memory is "
                "only a staging buffer and all cached data lives in storage.",
                "hicache_host_memory_mode",
                "hicache_storage_backend",
            )
        elif v.disaggregation_mode == "decode":
            yield no(
                "hicache-buffer",
                "--hicache-host-memory-mode buffer_only is not supported on decode instances: the decode-side prefetch and offload "
                "paths bypass the buffer-mode pipeline, fetching without its prefix context and never consuming its staged holds. "
                "Prefill instances share the standard scheduler path and are supported.",
                "hicache_host_memory_mode",
                "disaggregation_mode",
            )
    if v.dcp_size > 1 and v.enable_hierarchical_cache:
        yield from _tiers_dcp(v)


def _tiers_dcp(v: View) -> Refusals:
    """resolve_hicache_dcp_compatibility."""
    for wrong, said, dest in (
        (
            v.hicache_storage_backend is not None and v.hicache_host_memory_mode == "buffer_only",
            "HiCache L3 with DCP does not support buffer_only host memory.",
            "hicache_host_memory_mode",
        ),
        (
            v.speculative_algorithm not in (None, "DSPARK"),
            "HiCache with --dcp-size > 1 only supports DSPARK speculative decoding; other draft-model host pools have no DCP index "
            "translation.",
            "speculative_algorithm",
        ),
        (
            v.enable_lmcache,
            "--enable-lmcache with --dcp-size > 1 is not supported: LMCache has no DCP-aware index translation.",
            "enable_lmcache",
        ),
        (
            v.enable_hisparse,
            "--enable-hisparse with --dcp-size > 1 is not supported: the HiSparse host pool is constructed without DCP "
            "translation.",
            "enable_hisparse",
        ),
        (
            v.model.mla is False,
            "HiCache with --dcp-size > 1 is only supported for MLA models: the index translation lives in MLATokenToKVPoolHost, "
            "and the MHA host pool has none.",
            "enable_hierarchical_cache",
        ),
    ):
        if wrong:
            yield no("hicache-dcp", said, "dcp_size", dest, kind="NotImplementedError")
            return


def compatibility(v: View) -> Refusals:
    """handle_cache_compatibility."""
    backup, about = v.disaggregation_decode_retraction_backup, "disaggregation_decode_retraction_backup"
    name = "--disaggregation-decode-retraction-backup=host_pool"
    if backup == "host_pool":
        if v.disaggregation_mode != "decode":
            said = f"{name} is only supported on a PD decode server."
            yield no("retraction-backup", said, about, "disaggregation_mode")
        elif v.dcp_size > 1:
            yield no("retraction-backup", f"{name} does not support --dcp-size > 1.", about, "dcp_size")
        elif v.enable_priority_scheduling and not v.disable_priority_preemption:
            said = f"{name} requires --disable-priority-preemption when priority scheduling is enabled."
            yield no("retraction-backup", said, about, "disable_priority_preemption")
    if v.radix_eviction_policy == "tlru":
        yield from _tlru(v)
    if v.enable_hierarchical_cache and v.disable_radix_cache:
        yield no(
            "hicache-radix",
            "The arguments enable-hierarchical-cache and disable-radix-cache are mutually exclusive and cannot be used at the same "
            "time. Please use only one of them.",
            "enable_hierarchical_cache",
            "disable_radix_cache",
        )
    if v.disaggregation_decode_enable_offload_kvcache:
        about = "disaggregation_decode_enable_offload_kvcache"
        name = "The argument disaggregation-decode-enable-offload-kvcache is only supported"
        if v.disaggregation_mode != "decode":
            yield no("decode-offload", f"{name} for decode side.", about, "disaggregation_mode")
        elif v.hicache_storage_backend is None:
            said = f"{name} when hicache-storage-backend is provided."
            yield no("decode-offload", said, about, "hicache_storage_backend")
        elif backup == "host_pool":
            yield no(
                "decode-offload",
                "The arguments disaggregation-decode-enable-offload-kvcache and disaggregation-decode-retraction-backup=host_pool "
                "are mutually exclusive: both build a decode host pool.",
                about,
                "disaggregation_decode_retraction_backup",
            )
    ratio = v.swa_full_tokens_ratio
    if ratio is not None and not 0 < ratio <= 1:
        said = "--swa-full-tokens-ratio should be in range (0, 1.0]."
        yield no("swa-ratio", said, "swa_full_tokens_ratio")
    if v.swa_prefix_tails is not None and v.swa_prefix_tails < 0:
        said = "--swa-prefix-tails should be a non-negative integer."
        yield no("swa-tails", said, "swa_prefix_tails")
    if v.enable_lmcache:
        yield from _lmcache(v)


def _tlru(v: View) -> Refusals:
    config = v.radix_eviction_policy_config or {}
    if not isinstance(config, dict):
        return
    threshold, estimate = config.get("threshold", 0), config.get("next_prompt_estimate", 0)
    if threshold < 0 or estimate < 0:
        yield no(
            "tlru",
            "--radix-eviction-policy tlru requires non-negative 'threshold' and 'next_prompt_estimate' in "
            f"--radix-eviction-policy-config, got {threshold} and {estimate}.",
            "radix_eviction_policy",
            "radix_eviction_policy_config",
        )
    elif threshold <= estimate:
        yield no(
            "tlru",
            "--radix-eviction-policy tlru needs 'threshold' greater than 'next_prompt_estimate' in --radix-eviction-policy-config, "
            f"got {threshold} <= {estimate}; otherwise no tokens are ever TEL-safe and T-LRU is exactly LRU.",
            "radix_eviction_policy",
            "radix_eviction_policy_config",
        )


def _lmcache(v: View) -> Refusals:
    about = "enable_lmcache"
    later = "NotImplementedError"
    for wrong, kind, said, dest in (
        (
            v.enable_hierarchical_cache,
            "ValueError",
            "--enable-lmcache and --enable-hierarchical-cache are mutually exclusive",
            "enable_hierarchical_cache",
        ),
        (
            v.enable_unified_cache_external_linker,
            "ValueError",
            "--enable-lmcache and --enable-unified-cache-external-linker are mutually exclusive",
            "enable_unified_cache_external_linker",
        ),
        (
            v.disable_radix_cache,
            "ValueError",
            "--enable-lmcache requires radix cache to be enabled",
            "disable_radix_cache",
        ),
        (
            v.speculative_algorithm not in (None, "NONE"),
            later,
            "LMCacheUnifiedRadixCache does not yet support speculative decoding",
            "speculative_algorithm",
        ),
        (v.attn_dp, later, "LMCacheUnifiedRadixCache does not yet support DP attention", "attn_dp_size"),
        (
            v.dcp_size > 1,
            later,
            "--enable-lmcache with --dcp-size > 1 is not supported: LMCache has no DCP-aware index translation",
            "dcp_size",
        ),
        (
            v.enable_streaming_session,
            later,
            "LMCacheUnifiedRadixCache does not yet support streaming sessions",
            "enable_streaming_session",
        ),
        (
            v.hicache_host_memory_mode == "buffer_only",
            "ValueError",
            "--hicache-host-memory-mode=buffer_only is a HiCache-only mode",
            "hicache_host_memory_mode",
        ),
        (
            v.disaggregation_mode != "null",
            later,
            "LMCacheUnifiedRadixCache currently supports colocated prefill/decode scheduling only",
            "disaggregation_mode",
        ),
    ):
        if wrong:
            yield no("lmcache", said, about, dest, kind=kind)
            return


def page_major(v: View) -> Refusals:
    """handle_page_major_kv_layout."""
    if v.enable_page_major_kv_layout and not v.enable_unified_memory:
        yield bad(
            "page-major",
            "--enable-page-major-kv-layout without --enable-unified-memory is temporarily unsupported: the strided MHA K/V views "
            "were removed and the static-pool page-major layout awaits its per-layer-view reimplementation. Run with "
            "--enable-unified-memory, or drop --enable-page-major-kv-layout.",
            "enable_page_major_kv_layout",
            "enable_unified_memory",
        )


def chunks(v: View) -> Refusals:
    """check_server_args: a chunk is whole pages. Where the engine chooses one of them, the refusal is certain only if no
    choice fits."""
    page, given = v.page_size, v.chunked_prefill_size
    if v.disaggregation_mode == "decode" or page is None:
        return
    about = ("chunked_prefill_size", "page_size") if "chunked_prefill_size" in v.given else ("page_size",)
    divisor = v.attn_dp_size if v.attn_dp else 1
    sizes = (given,) if given is not None else tuple(c // divisor for c in _CHUNKS)
    if not all(c > 0 for c in sizes):
        return
    if page == 0:
        yield no("page-zero", "integer modulo by zero", "page_size", kind="ZeroDivisionError")
    elif all(c % page for c in sizes):
        yield bad("chunk-page", "chunked_prefill_size must be divisible by page_size", *about)
