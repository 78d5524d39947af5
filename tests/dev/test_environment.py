"""What the stack's processes see of the caller's environment."""

from pathlib import Path

import pytest

from dev import programs
from dev.environment import inherited, shared
from dev.kept import KeptSecrets
from dev.ports import Ports

KEPT = KeptSecrets(passwords={}, key_pepper="pepper", address_key="key")
PORTS = Ports(base=7480, workers=1)


def test_nothing_that_points_elsewhere_is_passed_on() -> None:
    stray = ("AWS_PROFILE", "AWS_ENDPOINT_URL", "HTTPS_PROXY", "http_proxy", "PGSSLMODE", "TEMPORAL_API_KEY")

    assert inherited(dict.fromkeys(stray, "elsewhere") | {"HOME": "/home/ada"}) == {"HOME": "/home/ada"}


def test_the_callers_own_times_win_over_the_stacks() -> None:
    found = shared({"FENCEPOST_LEASE_SECONDS": "3"}, ports=PORTS, kept=KEPT)

    assert found["FENCEPOST_LEASE_SECONDS"] == "3"
    assert found["FENCEPOST_SWEEP_SECONDS"] == "5"


def test_where_things_are_is_the_stacks_to_say() -> None:
    found = shared({"FENCEPOST_SES_ENDPOINT_URL": "http://elsewhere"}, ports=PORTS, kept=KEPT)

    assert found["FENCEPOST_SES_ENDPOINT_URL"] == "http://127.0.0.1:7487"


def test_the_api_trusts_the_topic_and_the_certificate_of_the_simulators_events() -> None:
    kept = KeptSecrets(passwords={"fencepost_api": "secret"}, key_pepper="pepper", address_key="key")

    simulator = programs.simulator(Path("ses"), PORTS)
    environment = programs.api(PORTS, kept).environment

    options = dict(zip(simulator.command[-6::2], simulator.command[-5::2], strict=True))
    assert options["--events-url"] == "http://127.0.0.1:7480/v1/provider-events/ses"
    assert options["--topic-arn"] == environment["FENCEPOST_EVENTS_TOPICS"]
    assert environment["FENCEPOST_EVENTS_CERTIFICATE_ORIGIN"] == "http://127.0.0.1:7481"


def test_the_caller_can_switch_the_events_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FENCEPOST_DEV_EVENTS", "off")

    assert "--events-url" not in programs.simulator(Path("ses"), PORTS).command


def test_no_secret_is_in_the_repr() -> None:
    assert repr(KEPT) == "KeptSecrets()"
