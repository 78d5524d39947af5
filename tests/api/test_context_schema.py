"""A template's context schema: which can be used, and what a context breaks of it."""

import pytest

from api.faults import FaultCode, InvalidRequest
from api.rendering import TemplateParts, check_template, render
from api.strict_json import JsonObject, JsonValue


def _faults(schema: JsonObject, context: JsonObject) -> list[tuple[str, str]]:
    assert check_template("Hello", "Hello", None, schema) == ()
    try:
        render(TemplateParts(subject="Hello", text="Hello", html=None, context_schema=schema), context)
    except InvalidRequest as refusal:
        return [(fault.pointer, fault.code) for fault in refusal.faults]
    return []


def _object(properties: JsonObject, **more: JsonValue) -> JsonObject:
    return {"type": "object", "properties": properties, "additionalProperties": False, **more}


_ORDER = _object(
    {
        "name": {"type": "string", "minLength": 1, "maxLength": 5, "pattern": "^[A-Z]"},
        "total": {"type": "number", "minimum": 0, "exclusiveMaximum": 100},
        "state": {"enum": ["new", "paid"]},
        "lines": {"type": "array", "minItems": 1, "maxItems": 2, "items": _object({"a/b": {"type": "integer"}})},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    required=["name"],
)


@pytest.mark.parametrize(
    ("context", "faults"),
    [
        ({"name": "Ada"}, []),
        ({"name": "Ada", "total": 12.5, "state": "paid", "lines": [{"a/b": 1}], "labels": {"x": "y"}}, []),
        ({"name": "Ada", "lines": [{"a/b": 1.0}]}, []),
        ({}, [("/context/name", FaultCode.REQUIRED)]),
        ({"name": 1}, [("/context/name", FaultCode.WRONG_TYPE)]),
        ({"name": None}, [("/context/name", FaultCode.WRONG_TYPE)]),
        ({"name": "Adalin"}, [("/context/name", FaultCode.TOO_LONG)]),
        ({"name": "ada"}, [("/context/name", FaultCode.INVALID_FORMAT)]),
        ({"name": "Ada", "total": -1}, [("/context/total", FaultCode.OUT_OF_RANGE)]),
        ({"name": "Ada", "total": 100}, [("/context/total", FaultCode.OUT_OF_RANGE)]),
        ({"name": "Ada", "state": "old"}, [("/context/state", FaultCode.NOT_ALLOWED)]),
        ({"name": "Ada", "lines": []}, [("/context/lines", FaultCode.TOO_FEW)]),
        ({"name": "Ada", "lines": [{}, {}, {}]}, [("/context/lines", FaultCode.TOO_MANY)]),
        ({"name": "Ada", "lines": [{}, {"a/b": "1"}]}, [("/context/lines/1/a~1b", FaultCode.WRONG_TYPE)]),
        ({"name": "Ada", "lines": [{"canary": 1}]}, [("/context/lines/0", FaultCode.UNKNOWN_FIELD)]),
        ({"name": "Ada", "canary": 1}, [("/context", FaultCode.UNKNOWN_FIELD)]),
        ({"name": "Ada", "labels": {"canary": 1}}, [("/context/labels", FaultCode.WRONG_TYPE)]),
        ({"canary": 1}, [("/context", FaultCode.UNKNOWN_FIELD), ("/context/name", FaultCode.REQUIRED)]),
    ],
)
def test_a_fault_points_at_a_declared_member_or_its_parent(context: JsonObject, faults: list[tuple[str, str]]) -> None:
    assert _faults(_ORDER, context) == faults


def test_every_missing_member_is_told() -> None:
    schema = _object({"a": True, "b": True, "c": True}, required=["a", "b", "c"])

    assert _faults(schema, {"b": 1}) == [("/context/a", FaultCode.REQUIRED), ("/context/c", FaultCode.REQUIRED)]


def test_no_more_faults_are_told_than_anybody_reads() -> None:
    schema: JsonObject = {"properties": {"list": {"items": {"type": "string"}}}}

    assert len(_faults(schema, {"list": list[JsonValue](range(5000))})) == 20


def test_a_refusal_repeats_nothing_of_the_context() -> None:
    schema: JsonObject = {
        "patternProperties": {"^canary": {"required": ["x"]}},
        "additionalProperties": {"additionalProperties": {"type": "null"}},
        "propertyNames": {"maxLength": 12},
        "dependentRequired": {"name": ["x"]},
    }
    context: JsonObject = {
        "canary": {},
        "other-canary": {"canary": {"canary": 1}},
        "a-very-long-canary": {},
        "name": {},
    }

    with pytest.raises(InvalidRequest) as refused:
        render(TemplateParts(subject="Hello", text="Hello", html=None, context_schema=schema), context)

    assert "canary" not in repr(refused.value.faults)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nothing"},
        {"properties": []},
        {"required": "name"},
        {"minLength": -1},
        {"pattern": "("},
        {"patternProperties": {"(": {}}},
        {"$schema": "http://json-schema.org/draft-07/schema#"},
        {"$ref": "https://example.com/schema"},
        {"$ref": "file:///etc/passwd"},
        {"$ref": "other.json"},
        {"$ref": "#/$defs/missing"},
        {"properties": {"a": {"items": {"$ref": "https://example.com/schema"}}}},
        {"$id": "https://example.com/a", "properties": {"a": {"$ref": "https://example.com/b"}}},
        {"$dynamicRef": "https://example.com/schema#a"},
        {"$ref": "#"},
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
    ],
)
def test_a_schema_that_can_t_be_used_is_no_version(schema: JsonObject) -> None:
    faults = check_template("Hello", "Hello", None, schema)

    assert [(fault.pointer, fault.code) for fault in faults] == [("/context_schema", FaultCode.SCHEMA_INVALID)]


def test_a_schema_may_refer_to_itself() -> None:
    node: JsonObject = _object({"value": {"type": "integer"}, "next": {"$ref": "#/$defs/node"}})
    schema: JsonObject = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$ref": "#/$defs/node",
        "$defs": {"node": node},
    }

    assert _faults(schema, {"value": 1, "next": {"value": 2}}) == []
    assert _faults(schema, {"next": {"next": {"value": "3"}}}) == [("/context/next/next/value", FaultCode.WRONG_TYPE)]


_BOMB: JsonObject = {
    "$ref": "#/$defs/d0",
    "$defs": {
        f"d{level}": {"allOf": [{"$ref": f"#/$defs/d{level + 1}"}] * 8} if level < 12 else {"type": "object"}
        for level in range(13)
    },
}


def test_a_schema_that_multiplies_is_no_version() -> None:
    faults = check_template("Hello", "Hello", None, _BOMB)

    assert [(fault.pointer, fault.code) for fault in faults] == [("/context_schema", FaultCode.TEMPLATE_TOO_COSTLY)]


@pytest.mark.parametrize(
    ("schema", "context"),
    [
        ({"properties": {"a": {"pattern": "^(a+)+$"}}}, {"a": "a" * 60 + "!"}),
        ({"properties": {"a": {"uniqueItems": True}}}, {"a": [{"b": number} for number in range(5000)]}),
    ],
    ids=["backtracking", "comparing all pairs"],
)
def test_a_context_that_takes_too_long_to_check_is_refused(schema: JsonObject, context: JsonObject) -> None:
    assert _faults(schema, context) == [("/context", FaultCode.TEMPLATE_TOO_COSTLY)]
