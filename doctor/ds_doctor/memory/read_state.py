"""What a recurrent layer keeps and weighs, from a config.json: Mamba, Mamba 2, gated delta nets, KDA, lightning and short convolutions."""

from __future__ import annotations

from .architecture import State
from .read_attention import heads_of, width
from .values import COUNT, Values


def state(v: Values, kind: str, word: str) -> State:
    if word == "conv":
        return _short_conv(v)
    if word == "linear":
        if kind.startswith(("minimax", "bailing")):
            return _lightning(v)
        if "linear_attn_config" in v or kind.startswith(("kimi_linear", "glm5_next", "kimi_k3")):
            return _kda(v)
        return _gated_delta(v)
    if kind in ("jamba", "mamba", "falcon_mamba"):
        return _mamba1(v)
    return _mamba2(v, kind)


def _gated_delta(v: Values) -> State:
    """Qwen3-Next and on."""
    hidden = width(v)
    k_heads = v.whole("linear_num_key_heads", default=16, high=COUNT)
    v_heads = v.whole("linear_num_value_heads", default=32, high=COUNT)
    k_dim, v_dim = v.whole("linear_key_head_dim", default=128), v.whole("linear_value_head_dim", default=128)
    kernel = v.whole("linear_conv_kernel_dim", default=4, high=64)
    keys, values = k_heads * k_dim, v_heads * v_dim
    conv = 2 * keys + values
    return State(
        kind="gated-delta",
        conv=conv,
        kernel=kernel,
        cells=v_heads * k_dim * v_dim,
        wide=v.word("mamba_ssm_dtype", "mamba_ssm_cache_dtype") == "float32",
        parameters=hidden * (2 * keys + 2 * values + 2 * v_heads) + conv * kernel + values * hidden,
    )


def _kda(v: Values) -> State:
    """Kimi delta attention: the recurrent state is 32-bit whatever the model's type."""
    hidden = width(v)
    inner = v.inner("linear_attn_config") or v
    heads = inner.whole(
        "num_heads", "linear_num_heads", default=v.whole("linear_num_heads", default=heads_of(v)), high=COUNT
    )
    dim = inner.whole("head_dim", "linear_head_dim", default=128, low=0) or v.whole("linear_head_dim", default=128)
    kernel = inner.whole("short_conv_kernel_size", "linear_conv_kernel_dim", default=4, high=64)
    size = heads * dim
    return State(
        kind="kda",
        conv=3 * size,
        kernel=kernel,
        cells=heads * dim * dim,
        wide=True,
        parameters=hidden * 4 * size + 2 * (hidden * dim + dim * size) + hidden * heads + 3 * size * kernel,
    )


def _lightning(v: Values) -> State:
    hidden, heads = width(v), heads_of(v)
    dim = v.whole("head_dim", default=hidden // heads)
    size = heads * dim
    return State(kind="linear", cells=heads * dim * dim, wide=True, parameters=hidden * 5 * size)


def _short_conv(v: Values) -> State:
    hidden = width(v)
    dim = v.whole("conv_dim", default=hidden)
    kernel = v.whole("conv_L_cache", default=3, high=64)
    return State(kind="short-conv", conv=dim, kernel=kernel, parameters=hidden * 3 * dim + dim * kernel + dim * hidden)


def _mamba1(v: Values) -> State:
    hidden = width(v)
    inner = v.whole("intermediate_size", default=0, low=0) if "state_size" in v else 0
    inner = inner or v.whole("mamba_expand", "expand", default=2, high=64) * hidden
    cells = v.whole("mamba_d_state", "state_size", default=16)
    kernel = v.whole("mamba_d_conv", "conv_kernel", default=4, high=64)
    told = v.raw("mamba_dt_rank", "time_step_rank")
    rank = told if isinstance(told, int) and not isinstance(told, bool) and 0 < told <= 1 << 20 else -(-hidden // 16)
    return State(
        kind="mamba1",
        conv=inner,
        kernel=kernel,
        cells=inner * cells,
        parameters=hidden * 2 * inner
        + inner * kernel
        + inner * (rank + 2 * cells)
        + rank * inner
        + inner * cells
        + inner * hidden,
    )


def _mamba2(v: Values, kind: str) -> State:
    hidden = width(v)
    heads = v.whole("mamba_num_heads", "mamba_n_heads", "n_mamba_heads", "num_heads", default=0, low=0, high=COUNT)
    dim = (
        v.whole("mamba_head_dim", "mamba_headdim", "mamba_d_head", "head_dim", default=64)
        if not isinstance(v.raw("mamba_d_head"), str)
        else 0
    )
    inner = v.whole("mamba_d_ssm", default=0, low=0) or (
        heads * dim
        if kind.startswith("nemotron_h") and heads and dim
        else int(v.number("mamba_expand", "expand", default=2.0) * hidden)
    )
    dim = dim or inner // max(heads, 1)
    heads = heads or inner // dim
    groups = v.whole("n_groups", "mamba_n_groups", "mamba_ngroups", default=1, high=COUNT)
    size = v.whole("ssm_state_size", "mamba_d_state", "state_size", default=128)
    kernel = v.whole("conv_kernel", "mamba_d_conv", default=4, high=64)
    conv = inner + 2 * groups * size
    return State(
        kind="mamba2",
        conv=inner,
        kernel=kernel,
        cells=heads * dim * size,
        groups=groups,
        group_size=size,
        wide=(
            v.word("mamba_ssm_cache_dtype", "mamba_ssm_dtype") or ("float32" if kind.startswith("nemotron_h") else "")
        )
        == "float32",
        parameters=hidden * (inner + conv + heads) + conv * kernel + inner * hidden,
    )
