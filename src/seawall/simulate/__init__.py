"""Know what a policy costs before production does: policies, breakers and budgets in virtual time.

    from seawall.simulate import Choice, Load, Phase, Scenario, compare

    found = compare(Scenario(
        load=Load(per_second=10, for_seconds=3_600),
        phases=(Phase("healthy", 600), Phase("down", 1_200), Phase("healthy")),
        choices=(Choice(presets.get("default")),),
    ))
    assert found["default"].dead_letters.mean == 0

Everything that decides is the code of production; the same seed gives the same result, byte for
byte. `seawall simulate` is the same from the command line.
"""

from seawall.simulate.contention import Contention, contention
from seawall.simulate.results import Comparison, Result, compare
from seawall.simulate.scenario import Choice, Fleet, Load, Phase, Scenario, Service
from seawall.simulate.scenario_data import load_scenario
from seawall.simulate.spread import Spread
from seawall.simulate.verdict import verdict

__all__ = [
    "Choice",
    "Comparison",
    "Contention",
    "Fleet",
    "Load",
    "Phase",
    "Result",
    "Scenario",
    "Service",
    "Spread",
    "compare",
    "contention",
    "load_scenario",
    "verdict",
]
