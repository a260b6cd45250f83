"""What the seed documents say stands beside the rules it concerns, with its standing and the truth; none of it is advice."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from ds_doctor.catalogue import Claim, Rule, blanks
from ds_doctor.model import LANGS, Finding, Lang, Result
from ds_doctor.report import render
from ds_doctor.report.words import word
from support import FIXTURES, doctor
from test_report import report

SEEDS = ("000_ca6dda753916c429", "002_e63b7d6e8dacfade", "003_f9c1240eaa1047a0")
CITED = re.compile(r"seed (\S+) §\d(\.\d)?(, §\d(\.\d)?)*\Z")
# What the refuted claims advise, in the words of a command: none of it may stand in a fix or a verify command.
BAD_ADVICE = (
    r"nvidia-driver-535",
    r"cuda-11\.\*",
    r"/usr/lib/nvidia:",
    r"TORCH_CUDA_ARCH_LIST=\"?(8\.0|9\.0)\b",
    r"nvidia-nccl-cu12(==2\.19\.3)?\s*$",
    r"nvidia-nccl-cu12==2\.19",
    r"pip install (pynvml )?nccl\b",
    r"torch\.__file__",
    r"whl/cu121",
    r"triton==3\.0\.0",
    r"no-cgroups: true",
    r"NCCL_ASYNC_ERROR_HANDLING=[01]",
    r"torchcompile",
    r"chown .*1001",
    r"/tmp/shm",
    r"shm-size[= ]2g\b",
    r"dmon -s um",
    r"dev-qwen38",
    r"--platform linux/amd64",
    r"a7f3e2b9c1d5",
    r"awq-ckpt-path",
    r"version\.txt",
)


def rules() -> dict[str, Rule]:
    return doctor().catalogue.rule


def claims() -> Iterator[tuple[str, Claim]]:
    for name, rule in rules().items():
        for claim in rule.claims:
            yield name, claim


def is_seed(source: str) -> bool:
    return source.startswith("seed ")


def test_every_claim_cites_the_document_that_makes_it() -> None:
    for name, claim in claims():
        assert any(is_seed(s) for s in claim.sources), f"{name}: {claim.says.en}"


def test_every_citation_names_a_seed_and_its_section() -> None:
    cited = [s for r in rules().values() for s in r.sources] + [s for _, c in claims() for s in c.sources]
    for source in filter(is_seed, cited):
        match = CITED.match(source)
        assert match and match[1] in SEEDS, source
    assert {s.split()[1] for s in cited if is_seed(s)} == set(SEEDS)


def test_the_citation_is_a_source_and_not_part_of_the_sentence() -> None:
    for name, claim in claims():
        for lang in LANGS:
            assert "seed 0" not in claim.says.plain(lang) + claim.truth.plain(lang), name


def test_what_is_refuted_has_a_source_that_is_no_seed() -> None:
    for name, claim in claims():
        if claim.standing != "documented":
            assert [s for s in claim.sources if not is_seed(s)], f"{name}: {claim.says.en}"


def test_what_is_disputed_names_both_sides() -> None:
    for name, claim in claims():
        if claim.standing == "disputed" and not claim.about:  # those that are gathered stand apart, one for each side
            sides = sum(len(s.split("§")) - 1 for s in claim.sources if is_seed(s))
            assert sides >= 2, f"{name}: {claim.says.en}"


def test_a_measured_claim_or_rule_says_under_which_circumstances() -> None:
    for name, rule in rules().items():
        if rule.standing == "measured":
            assert any(s.startswith("measured: ") for s in rule.sources), name
    for name, claim in claims():
        if claim.standing == "measured":
            assert any(s.startswith("measured: ") for s in claim.sources), name


def test_a_claim_stands_under_a_rule_once() -> None:
    for name, rule in rules().items():
        said = [c.says.en for c in rule.claims]
        assert len(said) == len(set(said)), name


def test_no_claim_has_blanks_since_no_finding_fills_them() -> None:
    for name, claim in claims():
        for text in (claim.says, claim.truth):
            assert not re.search(r"[{}]", text.en + text.zh), f"{name}: {text.en}"


def test_no_refuted_claim_is_advice() -> None:
    for name, rule in rules().items():
        advice = [s.run for s in rule.fix if s.run] + [t for s in rule.fix if s.say for t in (s.say.en, s.say.zh)]
        for line in [*advice, rule.verify or ""]:
            for bad in BAD_ADVICE:
                assert not re.search(bad, line), f"{name}: {line}"


def test_a_rule_covers_failures_that_the_documents_describe() -> None:
    known = set((FIXTURES / "documented-failures.txt").read_text("ascii").split())
    for name, rule in rules().items():
        assert set(rule.covers) <= known, name
        assert len(rule.covers) == len(set(rule.covers)), name
    assert any(rule.covers for rule in rules().values())


def broken(name: str) -> Result:
    rule = rules()[name]
    data = dict.fromkeys(blanks(rule.title.en) | blanks(rule.why.en), "1")
    return Result(rule=name, check="c", family="driver", status="fail", findings=(Finding(name, data=data),))


@pytest.mark.parametrize("lang", LANGS)
def test_a_reader_sees_claim_standing_truth_and_sources_under_a_finding(lang: Lang) -> None:
    shown = report(lang, [broken("driver-too-old")])
    wordy = "".join(render("text", shown, lang, verbose=True).split())
    short = "".join(render("text", shown, lang).split())
    claims = rules()["driver-too-old"].claims
    assert claims
    for claim in claims:
        parts = (
            claim.says.plain(lang),
            word("standing." + claim.standing, lang),
            claim.truth.plain(lang),
            *claim.sources,
        )
        for part in parts:
            assert "".join(part.split()) in wordy
        assert "".join(claim.says.plain(lang).split()) not in short


@pytest.mark.parametrize("lang", LANGS)
def test_json_carries_the_claims_of_every_rule(lang: Lang) -> None:
    (result,) = json.loads(render("json", report(lang, [broken("shm-too-small")]), lang))["results"]
    assert [(c["says"], c["standing"], c["truth"], tuple(c["sources"])) for c in result["claims"]] == [
        (c.says.plain(lang), c.standing, c.truth.plain(lang), c.sources) for c in rules()["shm-too-small"].claims
    ]


def test_a_measured_rule_names_its_measurement_first() -> None:
    """The report shows the first source beside the basis: "measured" above a link to a manual would be unproven."""
    for name, rule in doctor().catalogue.rule.items():
        if rule.standing == "measured":
            assert rule.sources[0].startswith("measured: "), name
