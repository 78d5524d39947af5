"""The documents say what the code says, and the top-level folders are our own."""

import importlib.util
import re
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings

from api.problems import ERRORS
from cli import settings_kinds
from db.crash_points import CrashPoint
from db.lifecycle import State
from dev.diagram import ARCHITECTURE, drawn
from tests.api.conftest import application
from tests.api.operations import operations_of

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
API_PAGE = ROOT / "docs" / "api.md"
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
DOCUMENTS = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *DECISIONS,
]
#: What a checkout doesn't have: made by commands, or somebody else's.
ELSEWHERE = {".env", ".fencepost/dev.json", "/openapi.json"}
#: `folder/file.ext` and `file.ext`, in backquotes; globs and patterns are none.
NAMED_FILE = re.compile(r"`([\w./-]+\.(?:py|md|sql|yml|yaml|toml|lock|json|mako|example))(?:::(\w+))?`")
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


def settings_table() -> str:
    """Draw every setting as a table; one that several classes read is in it once, as the first has it."""
    rows: dict[str, str] = {}
    for kind in settings_kinds():
        for name, field in kind.model_fields.items():
            variable = _variable(kind, name)
            rows.setdefault(variable, f"| `{variable}` | {_default(field)} | {field.description} |")
    return "\n".join(["| variable | default | meaning |", "|---|---|---|", *rows.values()])


def _variable(kind: type[BaseSettings], name: str) -> str:
    return f"{kind.model_config['env_prefix']}{name}".upper()


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "(required)"
    return "" if field.default in (None, "") else f"`{field.default}`"


def error_table() -> str:
    """Draw every error as a table."""
    rows = [f"| `{code}` | {status} | {title} |" for code, (status, title) in ERRORS.items()]
    return "\n".join(["| code | status | means |", "|---|---|---|", *rows])


def found_at(document: Path, named: str) -> bool:
    """Tell whether a document names a file that is there, from the root or from where it stands."""
    return named in ELSEWHERE or (ROOT / named).exists() or (document.parent / named).exists()


def test_the_diagram_is_the_one_that_the_lifecycle_draws() -> None:
    page = ARCHITECTURE.read_text()

    assert page == drawn(page), "run `make diagram`"


@pytest.mark.parametrize("page", ["nothing", drawn(ARCHITECTURE.read_text()) * 2])
def test_a_page_without_its_markers_is_refused(page: str) -> None:
    with pytest.raises(ValueError, match="marker"):
        drawn(page)


def test_the_readme_lists_every_setting() -> None:
    wanted = settings_table()

    assert wanted in README.read_text(), f"README.md's table should be:\n\n{wanted}\n"


def test_the_readme_lists_every_state() -> None:
    assert re.findall(r"^\| `([a-z_]+)` \|", README.read_text(), re.MULTILINE) == [str(state) for state in State]


def test_the_api_page_lists_every_error() -> None:
    wanted = error_table()

    assert f"\n\n{wanted}\n" in API_PAGE.read_text(), f"docs/api.md's table should be:\n\n{wanted}\n"


async def test_the_api_page_names_every_call() -> None:
    async with application("postgresql://nobody@127.0.0.1/nothing") as app:
        calls = {operation.name for operation in operations_of(app.openapi())}

    # The page says `{id}` where nothing else can be meant.
    assert {re.sub("{(?:message|tenant|suppression|subscription)_id}", "{id}", call) for call in calls} == set(
        re.findall(r"(?:^|`)([A-Z]+ /[\w/{}-]+)", API_PAGE.read_text(), re.MULTILINE)
    )


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_every_file_and_test_that_a_document_names_exists(document: Path) -> None:
    text = document.read_text()
    missing = [path for path in LINK.findall(text) if not (document.parent / path).exists()]
    for path, test in NAMED_FILE.findall(text):
        if not found_at(document, path) or (test and f"def {test}(" not in (ROOT / path).read_text()):
            missing.append(f"{path}::{test}")

    assert missing == []


def test_the_crash_table_names_tests_that_exist() -> None:
    """Those without a path are in one file, as the text above the table says."""
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "ARCHITECTURE.md").read_text()))
    tests = (ROOT / "tests" / "faults" / "test_crash_points.py").read_text()

    assert named
    assert [name for name in named if f"def {name}(" not in tests] == []


@pytest.mark.parametrize("point", CrashPoint)
def test_every_crash_point_is_passed_at_one_place_and_died_at_in_a_test(point: CrashPoint) -> None:
    product = [path for folder in ("api", "activities", "db") for path in (ROOT / folder).rglob("*.py")]
    passing = sum(path.read_text().count(f"passing(CrashPoint.{point.name})") for path in product)
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py") if path != Path(__file__))

    assert passing == 1
    assert f"CrashPoint.{point.name}" in tests or f'"{point}"' in tests


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_every_make_target_that_a_document_names_exists(document: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))

    assert set(re.findall(r"(?:`|^)make ([a-z-]+)", document.read_text(), re.MULTILINE)) <= targets


@pytest.mark.parametrize("decision", DECISIONS, ids=lambda decision: decision.name)
def test_every_decision_has_its_number_and_its_parts(decision: Path) -> None:
    text = decision.read_text()

    assert text.startswith(f"# {decision.name[:4]}. ")
    assert re.findall("^## (.+)", text, re.MULTILINE) == [
        "Context",
        "Decision",
        "Consequences",
        "Alternatives",
        "References",
    ]


def test_the_decisions_are_numbered_without_gaps() -> None:
    assert [int(decision.name[:4]) for decision in DECISIONS] == list(range(1, len(DECISIONS) + 1))


@pytest.mark.parametrize("name", ["api", "workflows", "activities", "db", "dev", "worker", "cli"])
def test_a_top_level_name_is_ours_and_nobody_elses(name: str) -> None:
    """The names are generic: a dependency that brings one of them would take its place (docs/decisions/0007)."""
    found = importlib.util.find_spec(name)

    assert found is not None
    assert found.origin is not None
    assert Path(found.origin).is_relative_to(ROOT)
    assert set(packages_distributions().get(name, ())) <= {"fencepost-relay"}
