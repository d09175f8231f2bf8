"""Metrics for Prometheus: declared as data, read from the store whenever somebody scrapes."""

from seawall.metrics.declared import METRICS, Kind, Metric
from seawall.metrics.telling import Metrics, Told

__all__ = ["METRICS", "Kind", "Metric", "Metrics", "Told"]
