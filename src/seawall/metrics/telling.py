"""Metrics in Prometheus' words, from one look for all who ask at about the same time."""

import threading
import time
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from seawall.errors import ConfigurationError
from seawall.metrics.declared import METRICS, Kind, Metric
from seawall.metrics.figures import Figures
from seawall.metrics.reading import Reader
from seawall.store import BOUNDS_SECONDS, Store

if TYPE_CHECKING:
    from seawall.upstreams import Upstreams

SHOWN_SECONDS = 1.0
SHARE = 20.0
"""Looking takes no more than one in so many seconds."""
_BOUNDS = (*(repr(float(bound)) for bound in BOUNDS_SECONDS), "+Inf")


class Told(NamedTuple):
    """What a scrape is answered."""

    text: bytes
    content_type: str


class Metrics:
    """What a store's metrics are, for everybody who scrapes this process. For all threads."""

    def __init__(self, store: Store, upstreams: "Upstreams") -> None:
        need_client()
        self._reader = Reader(store, upstreams)
        self._lock = threading.Lock()
        self._seen: Figures | None = None
        self._good_until = 0.0
        self._texts: dict[str, bytes] = {}

    def told(self, accept: str = "") -> Told:
        """The metrics as they stand, or stood a moment ago, in the format that is accepted."""
        encode, content_type = need_client().exposition.choose_encoder(accept)
        with self._lock:
            began = time.monotonic()
            if self._seen is None or began >= self._good_until:
                self._seen = self._reader.look()
                now = time.monotonic()
                self._good_until = now + max(SHOWN_SECONDS, SHARE * (now - began))
                self._texts.clear()
            kind = content_type.partition(";")[0] + str("openmetrics" in content_type)
            return Told(self._encoded(kind, encode, self._seen), content_type)

    def _encoded(self, kind: str, encode: Any, seen: Figures) -> bytes:
        if kind not in self._texts:
            self._texts[kind] = encode(_Collected(seen))
        return self._texts[kind]


def need_client() -> Any:
    """Prometheus' own library; `ConfigurationError` where it is not installed."""
    try:
        import prometheus_client  # noqa: PLC0415 - an extra
    except ImportError:
        raise ConfigurationError(
            "metrics need prometheus-client: pip install 'seawall[metrics]'"
        ) from None
    return prometheus_client


class _Collected:
    """A collector of what was seen."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Any]:
        return (self._family(metric) for metric in METRICS)

    def _family(self, metric: Metric) -> Any:
        core = need_client().metrics_core
        make = {
            Kind.COUNTER: core.CounterMetricFamily,
            Kind.GAUGE: core.GaugeMetricFamily,
            Kind.HISTOGRAM: core.HistogramMetricFamily,
        }[metric.kind]
        family = make(metric.name, metric.meaning, labels=metric.labels)
        for labels, value in sorted(self._figures.values[metric.name].items()):
            family.add_metric(labels, value)
        for labels, (counts, sum_) in sorted(self._figures.spans[metric.name].items()):
            family.add_metric(labels, _buckets(counts), sum_)
        return family


def _buckets(counts: Iterable[int]) -> list[tuple[str, int]]:
    return list(zip(_BOUNDS, accumulate(counts), strict=True))
