"""What can be known of the Compose file and the image without a container engine."""

import asyncio
import json
import re
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from importlib.resources import files
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import yaml
from jsonschema import Draft202012Validator
from pydantic_settings import BaseSettings

from activities.ses import SesSettings
from api.app import ApiSettings
from api.aws import QueueSettings
from api.consumer import ConsumerSettings
from cli import settings_kinds
from db.engine import DatabaseSettings
from dev.postgres import Postgres
from tests.conftest import free_port
from worker import DeliverySettings

ROOT = Path(__file__).parents[1]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]  # as YAML has it
OURS = [name for name, service in SERVICES.items() if service["image"].startswith("fencepost:")]
#: Which settings each of our processes reads, of those that have no default.
READS: dict[str, tuple[type[BaseSettings], ...]] = {
    "api": (DatabaseSettings, ApiSettings),
    "worker": (DatabaseSettings, SesSettings),
    "migrate": (DatabaseSettings,),
    "events": (DatabaseSettings, ConsumerSettings, QueueSettings),
}
#: Settings of Temporal's and of Amazon's own, which their libraries read.
FOREIGN = {"TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}
#: `$NAME` and `${NAME...}`, but not `$$`.
VARIABLE = re.compile(r"(?<!\$)\$\{?(\w+)")


def settings_of(kind: type[BaseSettings], *, required: bool = False) -> set[str]:
    """Name the variables of a settings class."""
    return {
        f"{kind.model_config['env_prefix']}{name}".upper()
        for name, field in kind.model_fields.items()
        if field.is_required() or not required
    }


def environment_of(name: str) -> dict[str, str]:
    environment: dict[str, str] = SERVICES[name].get("environment", {})
    return environment


def seconds(duration: str) -> float:
    assert duration.endswith("s")
    return float(duration.removesuffix("s"))


def example_variables() -> dict[str, str]:
    lines = (ROOT / ".env.example").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def test_the_compose_file_is_valid() -> None:
    schema = files("check_jsonschema") / "builtin_schemas" / "vendor" / "compose-spec.json"

    Draft202012Validator(json.loads(schema.read_text())).validate(COMPOSE)


@pytest.mark.parametrize("name", SERVICES)
def test_every_image_is_pinned_by_a_version(name: str) -> None:
    _, _, tag = SERVICES[name]["image"].partition(":")

    assert re.fullmatch(r"\d+\.\d+(\.\d+)?", tag)


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_waits_for_something_that_can_come(name: str) -> None:
    for other, wait in SERVICES[name].get("depends_on", {}).items():
        match wait["condition"]:
            case "service_healthy":
                assert "healthcheck" in SERVICES[other]
            case "service_completed_successfully":
                assert SERVICES[other]["restart"] == "on-failure"
            case other_condition:
                pytest.fail(other_condition)


@pytest.mark.parametrize("name", SERVICES)
def test_every_file_that_a_service_mounts_exists(name: str) -> None:
    mounted = [volume.split(":")[0] for volume in SERVICES[name].get("volumes", [])]

    assert [path for path in mounted if path.startswith("./") and not (ROOT / path).is_file()] == []
    assert {path for path in mounted if not path.startswith("./")} <= set(COMPOSE["volumes"])


@pytest.mark.parametrize("name", OURS)
def test_our_services_set_real_settings_and_all_that_have_no_default(name: str) -> None:
    known = set().union(*(settings_of(kind) for kind in settings_kinds())) | FOREIGN
    required = set().union(*(settings_of(kind, required=True) for kind in READS.get(name, ())))

    assert required <= set(environment_of(name)) <= known


@pytest.mark.parametrize("name", SERVICES)
def test_no_secret_stands_in_the_compose_file(name: str) -> None:
    for variable, value in environment_of(name).items():
        if re.search("PASSWORD|PWD|SECRET|PEPPER|ADDRESS_KEY|ACCESS_KEY", variable):
            assert VARIABLE.match(value), variable
        if variable.endswith("DATABASE_URL"):
            assert re.fullmatch(r"postgresql://\w+:\$\{\w+:\?\}@postgres/fencepost", value), variable


def test_the_example_names_every_variable_of_the_compose_file_and_gives_none_a_value() -> None:
    example = example_variables()

    assert set(example) == set(VARIABLE.findall((ROOT / "docker-compose.yml").read_text()))
    assert set(example.values()) == {""}


def test_the_filled_in_example_is_not_committed_and_not_in_the_image() -> None:
    ignored_by_docker = (ROOT / ".dockerignore").read_text().splitlines()

    assert ".env" in (ROOT / ".gitignore").read_text().splitlines()
    assert "*" in ignored_by_docker
    assert [line for line in ignored_by_docker if line.startswith("!.")] == []


def test_a_worker_that_is_stopped_has_the_time_to_record_a_call_under_way() -> None:
    grace = DeliverySettings.model_fields["shutdown_grace_seconds"].default

    assert seconds(SERVICES["worker"]["stop_grace_period"]) > grace


def test_a_consumer_that_is_stopped_has_the_time_for_its_poll_to_end() -> None:
    poll = QueueSettings.model_fields["wait_seconds"].default

    assert seconds(SERVICES["events"]["stop_grace_period"]) > poll + 10


def test_the_image_takes_hashed_packages_only_and_runs_as_nobody_special() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()

    assert [line for line in lines if "pip install" in line and "--require-hashes" not in line] == []
    assert [line.split()[1] for line in lines if line.startswith("USER")][-1] not in ("root", "0")
    assert [line for line in lines if line.startswith(("ENV", "ARG"))] == []


async def test_the_image_has_every_package_that_its_processes_import() -> None:
    """The image has requirements.lock alone, and not what only the one-machine stack and the tests need."""
    script = """
import sys
before = set(sys.modules)
import cli, worker, api.app, api.consumer, db.migrate
print(*{name.partition(".")[0] for name in set(sys.modules) - before})
"""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", script), cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    imported, _ = await asyncio.wait_for(process.communicate(), 60)
    names = set(imported.decode().split())
    locked = set(re.findall(r"^([a-z0-9-]+)==", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    distributions = packages_distributions()
    needed = {
        re.sub(r"[-_.]+", "-", distribution).lower() for name in names for distribution in distributions.get(name, ())
    }

    assert {"cli", "worker", "api", "db"} <= names
    assert "dev" not in names
    assert {"boto3", "fastapi", "temporalio", "alembic"} <= needed
    assert needed - locked - {"fencepost-relay"} == set()


@pytest.fixture
def new_server(tmp_path: Path) -> Iterator[Postgres]:
    server = Postgres(tmp_path / "server", port=free_port(), durable=False)
    server.prepare()
    server.start()
    try:
        server.wait(30)
        yield server
    finally:
        server.remove()


async def test_the_databases_are_made_as_the_services_expect_them(new_server: Postgres) -> None:
    """As Postgres's image does it: psql, file by file, with the service's environment."""
    variables = {name: f"{name.lower()}x" for name in environment_of("postgres")}
    psql = Path(new_server.command()[0]).with_name("psql")
    scripts = [volume.split(":")[0] for volume in SERVICES["postgres"]["volumes"] if "initdb" in volume]
    for script in scripts:
        process = await asyncio.create_subprocess_exec(
            *(str(psql), "--no-psqlrc", "-v", "ON_ERROR_STOP=1", "-d", new_server.url(), "-f", str(ROOT / script)),
            env=variables,
            stdout=asyncio.subprocess.DEVNULL,
        )
        assert await asyncio.wait_for(process.wait(), 30) == 0

    for name in ("migrate", "api", "worker", "events"):
        url = VARIABLE.sub(lambda found: variables[found[1]], environment_of(name)["FENCEPOST_DATABASE_URL"])
        reached = url.replace(":?}", "").replace("@postgres/", f"@127.0.0.1:{new_server.port}/")
        await (await asyncpg.connect(reached)).close()
    for database in ("temporal", "temporal_visibility"):
        url = f"postgresql://temporal:{variables['TEMPORAL_PASSWORD']}@127.0.0.1:{new_server.port}/{database}"
        temporal = await asyncpg.connect(url)
        # Temporal's schema for visibility begins with this.
        await temporal.execute("CREATE TABLE mine (id int); CREATE EXTENSION btree_gin")
        await temporal.close()
