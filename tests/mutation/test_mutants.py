"""The list of mutants is true: each guard still stands where the list says, and so does each test that catches it."""

import ast
from collections import Counter
from functools import cache

import pytest

from tests.mutation.guards import GUARDS
from tests.mutation.mutant import ROOT, Mutant

every_mutant = pytest.mark.parametrize("mutant", GUARDS, ids=lambda mutant: mutant.name)


@cache
def source(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


@cache
def functions_in(path: str) -> frozenset[str]:
    tree = ast.parse(source(path))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@every_mutant
def test_each_guard_stands_exactly_once_and_its_mutant_is_still_python(mutant: Mutant) -> None:
    mutated = mutant.mutated(source(mutant.file))

    assert mutated != source(mutant.file)
    ast.parse(mutated)


@every_mutant
def test_each_test_that_is_to_catch_a_mutant_exists(mutant: Mutant) -> None:
    assert mutant.tests
    for node in mutant.tests:
        path, _, name = node.partition("::")
        assert not name or name.partition("[")[0] in functions_in(path)


def test_each_mutant_has_a_name_of_its_own() -> None:
    assert [name for name, times in Counter(mutant.name for mutant in GUARDS).items() if times > 1] == []


def test_a_guard_that_stands_nowhere_or_twice_is_found_out() -> None:
    mutant = GUARDS[0]

    with pytest.raises(ValueError, match="stands 0 times"):
        mutant.mutated("")
    with pytest.raises(ValueError, match="stands 2 times"):
        mutant.mutated(mutant.text * 2)
