"""The dashboard and the alert rules ask only for what is told; the page of metrics lists it all."""

import json
import re
from pathlib import Path

import pytest
import yaml

from seawall.metrics import METRICS, Kind

ROOT = Path(__file__).parent.parent.parent
DASHBOARD = json.loads((ROOT / "contrib/grafana/seawall.json").read_text("utf-8"))
GROUPS = yaml.safe_load((ROOT / "contrib/prometheus/alerts.yml").read_text("utf-8"))["groups"]
RULES = [rule for group in GROUPS for rule in group["rules"]]
RECORDED = {rule["record"] for rule in RULES if "record" in rule}
PANELS = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
EXPRESSIONS = [*PANELS, *(rule["expr"] for rule in RULES)]

WORDS = {
    "sum", "max", "rate", "increase", "vector", "histogram_quantile",
    "by", "and", "or", "unless", "offset",
}  # fmt: skip
FROM_PROMETHEUS = {"le"}
LABELS = {
    name: {*metric.labels, *FROM_PROMETHEUS}
    for metric in METRICS
    for name in (
        [f"{metric.name}{end}" for end in ("_bucket", "_sum", "_count")]
        if metric.kind is Kind.HISTOGRAM
        else [metric.name]
    )
} | {name: set() for name in RECORDED}
GROUPED = re.compile(r"\bby \(([^)]*)\)")
PICKED = re.compile(r"([\w:]+)\{([^}]*)\}")
WORD = re.compile(r"(?<![\w$.])[a-zA-Z_][\w:]*")


def names_in(expression):
    """The metrics that an expression asks for."""
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]|offset \w+|\$\w+", " ", GROUPED.sub(" ", expression))
    return set(WORD.findall(bare)) - WORDS


def labels_in(expression):
    grouped = [each.strip() for found in GROUPED.findall(expression) for each in found.split(",")]
    picked = [each for _, found in PICKED.findall(expression) for each in _keys(found)]
    return {*grouped, *picked}


def _keys(matchers):
    return re.findall(r'(\w+)\s*(?:=~|!~|!=|=)\s*"', matchers)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_metric_and_label_that_is_asked_for_is_there(expression):
    names = names_in(expression)
    assert names
    assert names <= set(LABELS)
    assert labels_in(expression) <= set.union(*(LABELS[name] for name in names))
    for name, matchers in PICKED.findall(expression):
        assert set(_keys(matchers)) <= LABELS[name]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_what_every_process_tells_is_counted_once_whatever_labels_targets_have(expression):
    """`max by` the metric's own labels comes before any sum."""
    told = [name for name in WORD.findall(expression) if name in LABELS and name not in RECORDED]
    assert len(re.findall(r"\bmax by \(|\bmax\(", expression)) >= len(told)


def test_an_expression_that_asks_for_nothing_there_is_noticed():
    expression = 'sum by (color) (rate(seawall_jobs_lost_total{shape="x"}[5m])) > 3'
    assert names_in(expression) == {"seawall_jobs_lost_total"}
    assert labels_in(expression) == {"color", "shape"}


def test_brackets_are_closed():
    for expression in EXPRESSIONS:
        for left, right in ("()", "[]", "{}"):
            assert expression.count(left) == expression.count(right), expression


def test_alerts_say_what_to_do_and_name_labels_that_they_have():
    alerts = [rule for rule in RULES if "alert" in rule]
    assert len({rule["alert"] for rule in alerts}) == len(alerts) >= 7
    for rule in alerts:
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert set(rule["annotations"]) == {"summary", "description"}
        shown = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        assert shown <= set.union(*(LABELS[name] for name in names_in(rule["expr"])))


def test_panels_have_numbers_and_places_of_their_own():
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in DASHBOARD["panels"]}
    assert len(set(ids)) == len(places) == len(ids)
    declared = {f"${each['name']}" for each in DASHBOARD["templating"]["list"]}
    for expression in PANELS:
        assert set(re.findall(r"\$\w+", expression)) <= declared


def test_every_metric_is_on_the_page_and_every_one_on_the_page_is_there():
    page = (ROOT / "docs/metrics.md").read_text("utf-8")
    rows = re.findall(r"^\| `(seawall_\w+)` \|", page, re.MULTILINE)
    assert rows == [metric.name for metric in METRICS]


def test_names_follow_the_conventions_of_prometheus():
    for metric in METRICS:
        assert re.fullmatch(r"seawall_[a-z_]+", metric.name)
        assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER)
        assert metric.kind is not Kind.HISTOGRAM or metric.name.endswith("_seconds")
