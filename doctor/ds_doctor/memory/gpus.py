"""GPU names as people write them, to the memory that CUDA reports; `8xH200`, `2xRTX4090`, `4090`, `A100-40GB`."""

from __future__ import annotations

import re

import msgspec

from .setting import GIB


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU: `total` bytes as cudaMemGetInfo says; `free` bytes where they are known. `seen`: `total` was read from a log or a card."""

    name: str
    total: int
    free: int | None = None
    capability: tuple[int, int] | None = None
    seen: bool = True


# Name -> (GiB that cudaMemGetInfo reports, compute capability, read from a card or log). Those not seen: 98.5 % of the data sheet's figure.
# Seen: T4 14.56, L4 22.06, RTX 3090 23.58, RTX 4090 23.52, RTX 5090 31.4, A100 40GB 39.49, A100 80GB 79.15, H100 79.2, H100 NVL 93.1, H20 95.0,
# GH200 95.0, GB10 121.7, H200 139.8, B200 178.35, B300 276.6 (start-up logs of vLLM and SGLang, see fixtures/memory/points.jsonl).
_CARDS: dict[str, tuple[float, tuple[int, int], bool]] = {
    "H200 NVL": (139.8, (9, 0), False), "H200": (139.8, (9, 0), True), "H100 NVL": (93.1, (9, 0), True), "H100 PCIe": (79.2, (9, 0), True),
    "H100 96GB": (94.5, (9, 0), False), "H100": (79.2, (9, 0), True), "H800": (79.2, (9, 0), False), "H20-3e": (139.8, (9, 0), False), "H20": (95.0, (9, 0), True),
    "GH200 144GB": (139.8, (9, 0), False), "GH200": (95.0, (9, 0), True), "B200": (178.35, (10, 0), True), "GB200": (184.0, (10, 0), False),
    "B300": (276.6, (10, 3), True), "GB300": (276.6, (10, 3), False), "A100 40GB": (39.49, (8, 0), True), "A100 80GB": (79.15, (8, 0), True),
    "A100": (79.15, (8, 0), True), "A800": (79.15, (8, 0), False), "A40": (44.4, (8, 6), False), "A30": (23.5, (8, 0), False), "A10G": (22.05, (8, 6), False),
    "A10": (22.05, (8, 6), False), "A16": (14.6, (8, 6), False), "L40S": (44.4, (8, 9), False), "L40": (44.4, (8, 9), False), "L20": (44.4, (8, 9), False),
    "L4": (22.06, (8, 9), True), "L2": (22.0, (8, 9), False), "T4": (14.56, (7, 5), True), "V100 16GB": (15.77, (7, 0), False), "V100": (31.73, (7, 0), False),
    "P100": (15.9, (6, 0), False), "P40": (23.9, (6, 1), False),
    "RTX PRO 6000": (94.97, (12, 0), False), "RTX PRO 5000": (47.3, (12, 0), False), "RTX 6000 Ada": (47.4, (8, 9), False), "RTX 5000 Ada": (31.5, (8, 9), False), "RTX A6000": (47.5, (8, 6), False),
    "RTX A5000": (23.6, (8, 6), False), "RTX A4000": (15.6, (8, 6), False), "RTX 5090": (31.36, (12, 0), True), "RTX 5090 D": (31.36, (12, 0), False), "RTX 5080": (15.5, (12, 0), False),
    "RTX 5070 Ti": (15.5, (12, 0), False), "RTX 5070": (11.6, (12, 0), False), "RTX 5060 Ti 16GB": (15.5, (12, 0), False), "RTX 4090 48GB": (47.4, (8, 9), False), "RTX 4090": (23.52, (8, 9), True),
    "RTX 4090 D": (23.52, (8, 9), False), "RTX 4080": (15.6, (8, 9), False), "RTX 4070 Ti SUPER": (15.6, (8, 9), False), "RTX 4070": (11.6, (8, 9), False), "RTX 4060 Ti 16GB": (15.6, (8, 9), False),
    "RTX 3090 Ti": (23.56, (8, 6), False), "RTX 3090": (23.58, (8, 6), True), "RTX 3080 10GB": (9.65, (8, 6), False), "RTX 3080": (9.65, (8, 6), False), "RTX 3060": (11.6, (8, 6), False), "RTX 2080 Ti": (10.75, (7, 5), False),
    "GB10": (121.7, (12, 1), True), "DGX Spark": (121.7, (12, 1), True), "Thor": (122.8, (11, 0), False), "Orin 64GB": (61.4, (8, 7), False), "Orin": (61.4, (8, 7), False),
}  # fmt: skip


# What a message names as examples.
USUAL_NAMES = ("H200", "H100", "B200", "A100-80GB", "L40S", "RTX4090", "T4")


class UnknownCard(Exception):
    """No such GPU is known; the arguments are the word and names that are near."""


def _plain(text: str) -> str:
    text = re.sub(r"(\d)\s*(?:gib|gb|g)\b", r"\1gb", text.lower())
    text = re.sub(r"nvidia|geforce|tesla|quadro|sxm\d?|hbm\d?e?|-|_|\s|\(|\)|generation|laptop|gpu", "", text)
    return re.sub(r"pcie", "", text)


_BY_PLAIN = {_plain(name): name for name in _CARDS}


def card(word: str) -> Card:
    """The card that `word` names: NVML's name, a data sheet's, or what people say. UnknownCard: none."""
    plain = _plain(word)
    for candidate in (
        plain,
        plain.removesuffix("gb"),
        "rtx" + plain,
        "rtx" + plain.removeprefix("gtx"),
        re.sub(r"\d+gb", "", plain),
        "rtx" + re.sub(r"\d+gb", "", plain),
    ):
        name = _BY_PLAIN.get(candidate)
        if name is not None:
            return _card(name)
    longest = max((p for p in _BY_PLAIN if len(p) >= 3 and plain.startswith(p)), key=len, default=None)
    if longest is not None:
        return _card(_BY_PLAIN[longest])
    raise UnknownCard(word[:40], tuple(sorted(_CARDS)))


def _card(name: str) -> Card:
    gib, capability, seen = _CARDS[name]
    return Card(name=name, total=int(gib * GIB), capability=capability, seen=seen)


_SET = re.compile(r"^\s*(?:(\d{1,4})\s*(?:x|\*|×)\s*)?(.+?)\s*$", re.IGNORECASE)


def cards(text: str) -> tuple[Card, ...]:
    """`8xH200`, `4090`, `H100x4`, `2x48GB`: the cards meant. UnknownCard: none of that name."""
    m = _SET.match(text[:80])
    if m is None:
        raise UnknownCard(text[:40], ())
    count, word = int(m[1] or 1), m[2]
    behind = re.match(r"^(.+?)\s*[xX*×]\s*(\d{1,3})$", word)  # H100x8; a card's own number has four digits
    if behind is not None and m[1]:  # 8xH200x2
        raise UnknownCard(text[:40], ())
    if behind is not None:
        word, count = behind[1], int(behind[2])
    if not 1 <= count <= 4096:
        raise UnknownCard(text[:40], ())
    size = re.fullmatch(r"(\d{1,4}(?:\.\d+)?)\s*(?:GiB|GB|G)", word, re.IGNORECASE)
    if size is not None:
        if float(size[1]) < 1:
            raise UnknownCard(text[:40], ())
        one = Card(name=f"{size[1]} GiB", total=int(float(size[1]) * GIB))
    else:
        one = card(word)
    return (one,) * count


def known() -> tuple[Card, ...]:
    return tuple(_card(name) for name in _CARDS)
