"""JSON Schema (Draft 2020-12) for template contexts: whether a schema can be used, and what a context breaks of it.

Both can take any amount of work, as a schema may recurse, multiply and backtrack: call this in confinement only.
"""

from collections.abc import Iterator
from itertools import islice, takewhile
from typing import Final

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012, SchemaRegistry

from api.faults import Fault, FaultCode, pointer
from api.strict_json import JsonObject, JsonValue

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
#: Enough to mend a context by; a list of ten thousand wrong items says no more.
MAX_FAULTS: Final = 20

#: Nothing but the schema itself: the library's own registry would fetch what a schema refers to.
_NO_REGISTRY: Final[SchemaRegistry] = Registry()

_FAULTS: Final = {
    "additionalProperties": (FaultCode.UNKNOWN_FIELD, "There is a member that the schema doesn't know."),
    "unevaluatedProperties": (FaultCode.UNKNOWN_FIELD, "There is a member that the schema doesn't know."),
    "type": (FaultCode.WRONG_TYPE, "The schema wants another type."),
    "enum": (FaultCode.NOT_ALLOWED, "The schema lists other values."),
    "const": (FaultCode.NOT_ALLOWED, "The schema wants another value."),
    "pattern": (FaultCode.INVALID_FORMAT, "The text doesn't match the schema's pattern."),
    "minLength": (FaultCode.TOO_SHORT, "The text is shorter than the schema allows."),
    "maxLength": (FaultCode.TOO_LONG, "The text is longer than the schema allows."),
    "minItems": (FaultCode.TOO_FEW, "There are fewer items than the schema wants."),
    "maxItems": (FaultCode.TOO_MANY, "There are more items than the schema allows."),
    "minProperties": (FaultCode.TOO_FEW, "There are fewer members than the schema wants."),
    "maxProperties": (FaultCode.TOO_MANY, "There are more members than the schema allows."),
    "uniqueItems": (FaultCode.DUPLICATE, "Two items are equal."),
    "minimum": (FaultCode.OUT_OF_RANGE, "The number is smaller than the schema allows."),
    "exclusiveMinimum": (FaultCode.OUT_OF_RANGE, "The number is smaller than the schema allows."),
    "maximum": (FaultCode.OUT_OF_RANGE, "The number is larger than the schema allows."),
    "exclusiveMaximum": (FaultCode.OUT_OF_RANGE, "The number is larger than the schema allows."),
}
_OTHER: Final = (FaultCode.INVALID, "The value doesn't fit the schema.")


def schema_faults(schema: JsonObject) -> list[Fault]:
    """Return why the schema can't be used: no schema of Draft 2020-12, or one that refers to what isn't in it."""
    if schema.get("$schema", DIALECT) != DIALECT:
        return [_schema_fault(f"The only dialect is {DIALECT}.")]
    try:
        # The format checker is what looks at the regular expressions.
        Draft202012Validator.check_schema(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    except SchemaError:
        return [_schema_fault("This is no JSON Schema, Draft 2020-12.")]
    resolver = _NO_REGISTRY.resolver_with_root(DRAFT202012.create_resource(schema))
    try:
        for part in _subschemas(schema):
            for keyword in ("$ref", "$dynamicRef"):
                if isinstance(part, dict) and keyword in part:
                    resolver.lookup(str(part[keyword]))
    except Unresolvable:
        return [_schema_fault("The schema refers to something outside itself.")]
    # What a schema that recurses without end does shows with any context.
    return [] if _errors(schema, {}) is not None else [_schema_fault("The schema can't be evaluated.")]


def context_faults(schema: JsonObject, context: JsonObject, at: str) -> list[Fault]:
    """Return what the context breaks of a schema that passed `schema_faults`, at most `MAX_FAULTS`.

    Pointers start with `at`, and end before the first member whose name the schema doesn't declare.
    """
    errors = _errors(schema, context)
    if errors is None:
        return [Fault(pointer=at, code=FaultCode.INVALID, detail="The schema can't be evaluated for this context.")]
    declared = declared_names(schema)
    faults = dict.fromkeys(fault for error in errors for fault in _faults_of(error, declared, at))
    return sorted(faults, key=lambda fault: fault.pointer)


def declared_names(schema: JsonObject) -> frozenset[str]:
    """Return every member name that the schema speaks of, anywhere in it."""
    names: set[str] = set()
    for part in _subschemas(schema):
        for keyword in ("properties", "required"):
            declared = part.get(keyword) if isinstance(part, dict) else None
            if isinstance(declared, dict | list):
                names.update(name for name in declared if isinstance(name, str))
    return frozenset(names)


def _schema_fault(detail: str) -> Fault:
    return Fault(pointer="/context_schema", code=FaultCode.SCHEMA_INVALID, detail=detail)


def _errors(schema: JsonObject, context: JsonObject) -> list[ValidationError] | None:
    """Return the first errors, or None for a schema that breaks the evaluation itself."""
    validator = Draft202012Validator(schema, registry=_NO_REGISTRY)
    try:
        return list(islice(validator.iter_errors(context), MAX_FAULTS))
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001  # endless recursion, and whatever a reference to a place that is no schema leads to
        return None


def _faults_of(error: ValidationError, declared: frozenset[str], at: str) -> Iterator[Fault]:
    tokens = list(takewhile(lambda token: isinstance(token, int) or token in declared, error.absolute_path))
    where = at + pointer(*tokens)
    required, instance = error.validator_value, error.instance
    whole = len(tokens) == len(error.absolute_path)
    if whole and error.validator == "required" and isinstance(required, list) and isinstance(instance, dict):
        # The library reports each missing member, but says which one in its message only.
        for name in required:
            if name not in instance:
                yield Fault(pointer=where + pointer(name), code=FaultCode.REQUIRED, detail="This member is missing.")
    else:
        code, detail = _FAULTS.get(str(error.validator), _OTHER)
        yield Fault(pointer=where, code=code, detail=detail)


def _subschemas(schema: JsonValue) -> Iterator[JsonValue]:
    yield schema
    for part in DRAFT202012.subresources_of(schema):
        yield from _subschemas(part)
