"""What the stack's processes see of the caller's environment."""

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


def test_no_secret_is_in_the_repr() -> None:
    assert repr(KEPT) == "KeptSecrets()"
