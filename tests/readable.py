"""A workflow's history as a person with the Temporal UI reads it: payloads decoded."""

import base64
import json
from typing import Any

from temporalio.client import WorkflowHistory


def readable(history: WorkflowHistory) -> str:
    """Give a history's JSON with every payload's data as text."""
    return json.dumps(_decoded(json.loads(history.to_json())), ensure_ascii=False)


def _decoded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _text(inner) if key == "data" else _decoded(inner) for key, inner in value.items()}
    return [_decoded(inner) for inner in value] if isinstance(value, list) else value


def _text(data: Any) -> Any:
    return base64.b64decode(data).decode("utf-8", "replace") if isinstance(data, str) else _decoded(data)
