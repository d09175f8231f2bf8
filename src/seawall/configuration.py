"""The configuration file, read once: its settings, its policies and its upstreams.

The file is found and read here; what a setting may be is said in `settings`, what a policy may
be in `decisions.policy_data`, what may be said of an upstream in `decisions.upstream_data`.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from seawall import settings
from seawall.decisions import presets
from seawall.decisions.policy import Policy
from seawall.decisions.policy_data import policies_from
from seawall.decisions.upstream import Upstream
from seawall.decisions.upstream_data import upstreams_from
from seawall.errors import ConfigurationError, UnknownPolicyError
from seawall.settings import DEFAULT_FILE, POLICIES_KEY, PREFIX, UPSTREAMS_KEY, Settings


@dataclass(frozen=True, slots=True)
class Configuration:
    """What the command line, the environment and the file said, together."""

    settings: Settings
    policies: dict[str, Policy]
    """The presets and the file's own; one of the same name in the file replaces the preset."""
    sources: Mapping[str, str]
    """Where each policy comes from: `preset`, or the file's name."""
    upstreams: dict[str, Upstream]
    """What the file says of upstreams, by name."""

    def policy(self, name: str | None = None) -> Policy:
        """The policy of that name, or the one that tasks get which name none."""
        if name is not None:
            return presets.pick(name, self.policies)
        source = self.settings.sources.get("policy", "default")
        try:
            return presets.pick(self.settings.policy, self.policies)
        except UnknownPolicyError as error:
            raise UnknownPolicyError(f"policy ({source}): {error}") from None


def load(
    path: str | Path | None = None,
    *,
    flags: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Configuration:
    """Read the configuration: the file named, else `SEAWALL_CONFIG`, else ./seawall.toml."""
    environ = os.environ if environ is None else environ
    chosen = path or environ.get(PREFIX + "CONFIG") or None
    name = DEFAULT_FILE if chosen is None else str(chosen)
    try:
        content = settings.read_file(None if chosen is None else Path(chosen))
    except ConfigurationError as error:
        source = f" (from {PREFIX}CONFIG)" if chosen and not path else ""
        raise ConfigurationError(f"{error}{source}") from None
    own = policies_from(content.get(POLICIES_KEY, {}), f"{name}: {POLICIES_KEY}")
    upstreams = upstreams_from(content.get(UPSTREAMS_KEY, {}), f"{name}: {UPSTREAMS_KEY}")
    shipped = {preset: presets.get(preset) for preset in presets.names()}
    return Configuration(
        settings=settings.load(flags=flags, environ=environ, file=content, file_name=name),
        policies={**shipped, **own},
        sources={**dict.fromkeys(shipped, "preset"), **dict.fromkeys(own, name)},
        upstreams=upstreams,
    )


def load_policies(path: str | Path) -> dict[str, Policy]:
    """The policies of a TOML file, by name."""
    content = settings.read_file(Path(path))
    return policies_from(content.get(POLICIES_KEY, {}), f"{path}: {POLICIES_KEY}")
