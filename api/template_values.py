"""JSON values as a template sees them: their members and items, and nothing of Python."""

import json
from collections.abc import Iterator, Sequence

from typing_extensions import override

from api.strict_json import JsonObject, JsonValue


def opaque(value: JsonValue) -> object:
    """Return a value as a template may see it; minijinja would show the attributes of Python's own objects."""
    match value:
        case dict():
            return _Object(value)
        case list():
            return _Array(value)
        case _:
            return value


class _Object:
    """A JSON object with its members and nothing else."""

    __slots__ = ("_members", "_misses_items")

    def __init__(self, members: JsonObject) -> None:
        self._members = members
        self._misses_items = False

    @property
    def items(self) -> None:
        """What minijinja looks for to know a mapping, and again in place of a member `items` that isn't there."""
        if self._misses_items:
            self._misses_items = False
            raise AttributeError

    def __getitem__(self, name: str) -> object:
        if name not in self._members:
            self._misses_items = name == "items"
            raise KeyError
        return opaque(self._members[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    @override
    def __str__(self) -> str:
        return json.dumps(self._members, ensure_ascii=False)


@Sequence.register
class _Array:
    """A JSON array with its items and nothing else."""

    __slots__ = ("_items",)

    def __init__(self, items: list[JsonValue]) -> None:
        self._items = items

    def __getitem__(self, index: int) -> object:
        return opaque(self._items[index])

    def __len__(self) -> int:
        return len(self._items)

    @override
    def __str__(self) -> str:
        return json.dumps(self._items, ensure_ascii=False)
