"""What a run must have done for its time to count."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping


class WrongRun(Exception):  # noqa: N818 - it is an answer to a person, not a fault of the program
    """A run did not do what it was timed for; the text is one line that says how, without anything protected."""


def accepted_once(message_ids: Collection[str], submissions: Iterable[Mapping[str, object]]) -> None:
    """Make sure that the simulator's record has each message accepted once, and nothing else.

    Args:
        message_ids: The messages of the run.
        submissions: The record as `GET /_sim/submissions` lists it (CONTRACT section 4), from the run alone.

    Raises:
        WrongRun: It has not.

    """
    accepted: Counter[str] = Counter()
    others = 0
    for submission in submissions:
        tags = submission["tags"]
        message_id = str(tags.get("fencepost_message")) if isinstance(tags, Mapping) else ""
        if submission["answer"] == "accepted" and message_id in message_ids:
            accepted[message_id] += 1
        else:
            others += 1
    never = sum(accepted[message_id] == 0 for message_id in message_ids)
    again = sum(count > 1 for count in accepted.values())
    if never or again or others:
        raise WrongRun(
            f"the simulator accepted {never} of {len(message_ids)} messages never and {again} more than once,"
            f" and was asked for {others} other things"
        )
