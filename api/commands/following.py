"""Following a message: each new line of its timeline, until the machine has nothing more to do."""

import math
import sys
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from api.commands.client import Api, RefusedError, patience, segment
from api.commands.output import cell, print_json, short
from api.commands.refusals import refuse
from db.lifecycle import State

LOOK_EVERY_SECONDS: Final = 0.5

#: Where the machine has nothing more to do and a client's wish is fulfilled, or (with why) is not.
FULFILLED: Final = frozenset({State.PROVIDER_ACCEPTED, State.DELIVERED})
ENDED_OTHERWISE: Final = MappingProxyType(
    {
        State.AMBIGUOUS: "nobody can know yet whether the provider took it; it is not sent again by itself",
        State.SUPPRESSED: "it was not sent, since policy said no",
        State.DEAD: "it was refused for good, or given up",
        State.HARD_BOUNCED: "it can't be delivered",
        State.COMPLAINED: "the recipient called it spam",
    }
)
#: What a line of the timeline has, with its width at a terminal (the longest move and state have 17 letters).
_WIDTHS: Final = MappingProxyType(
    {"seq": 3, "at": 24, "move": 17, "from": 17, "to": 17, "attempt": 7, "actor": 8, "reason": 0}
)
LINE: Final = tuple(_WIDTHS)


def read_message(api: Api, message_id: str) -> dict[str, Any]:  # as JSON has it
    """Read a message whole."""
    return api.get(f"/v1/messages/{segment(message_id)}", "id", "state", "timeline")


def follow(api: Api, message: Mapping[str, Any], *, timeout: float | None, as_json: bool) -> None:
    """Print the timeline of a message that was just read, and each line that comes to it, until it has ended.

    Ends the command with 1 where that is without the provider's acceptance, or not within `timeout` seconds. An API
    that goes away meanwhile is waited for.
    """
    deadline = math.inf if timeout is None else time.monotonic() + timeout
    if not as_json:
        _print_cells({name: name for name in _WIDTHS})
    shown = _print_new(message, 0, as_json=as_json)
    with patience("following; Ctrl-C ends this, and not the message"):
        while message["state"] not in FULFILLED and message["state"] not in ENDED_OTHERWISE:
            left = deadline - time.monotonic()
            if left <= 0:
                refuse(f"the message is still {cell(message['state'])}; it goes on without this command")
            time.sleep(min(LOOK_EVERY_SECONDS, left))
            try:
                message = read_message(api, str(message["id"]))
            except RefusedError as refusal:
                if not refusal.away:
                    raise
            shown = _print_new(message, shown, as_json=as_json)
    if (why := ENDED_OTHERWISE.get(message["state"])) is not None:
        refuse(f"the message is {cell(message['state'])}: {why}")


def _print_new(message: Mapping[str, Any], shown: int, *, as_json: bool) -> int:
    """Print the lines after those that were shown, and give how many are shown now."""
    for line in message["timeline"][shown:]:
        if as_json:
            print_json(line)
        else:
            _print_cells({name: cell(line.get(name)) for name in _WIDTHS})
    return len(message["timeline"])


def _print_cells(cells: Mapping[str, str]) -> None:
    """Print a line of cells, of which a terminal can't know yet how wide the next ones are."""
    if sys.stdout.isatty():
        print("  ".join(f"{short(text):<{_WIDTHS[name]}}" for name, text in cells.items()).rstrip(), flush=True)
    else:
        print("\t".join(cells.values()), flush=True)
