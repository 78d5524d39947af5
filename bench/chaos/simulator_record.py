"""The simulator's record as it is on its disk: what it was asked to mail, and what it published about that."""

import shutil
import tempfile
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from bench.chaos.records import Notification, Request
from bench.chaos.stack import TormentedStack
from db.outcomes import EventType
from dev.simulator import events, faults, publications
from dev.simulator.record import FILE_NAME, Record, Submission
from dev.simulator.send_email import addr_spec

#: Our words for what SES says; written out here, so that the product's own reading is not what judges it.
_WORDS: Final = {
    events.EventType.SEND: EventType.SEND,
    events.EventType.DELIVERY: EventType.DELIVERY,
    events.EventType.COMPLAINT: EventType.COMPLAINT,
    events.EventType.REJECT: EventType.REJECT,
    events.EventType.RENDERING_FAILURE: EventType.REJECT,
    events.EventType.DELIVERY_DELAY: EventType.DELAY,
}
_SPECIAL_DOMAINS: Final = frozenset({faults.FAULT_DOMAIN, events.AWS_SIMULATOR_DOMAIN})


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What stands in the record."""

    requests: tuple[Request, ...]
    notifications: tuple[Notification, ...]

    def all_published(self) -> bool:
        """Tell whether no event is to come any more."""
        return all(notification.over for notification in self.notifications)


async def read(stack: TormentedStack) -> Recorded | None:
    """Read the record; None where the simulator doesn't run.

    No list of events can be asked for, and a running simulator shares its file with nobody. So it is stopped for a
    moment, and a copy is read: SQLite makes of it what a power cut would have left, which is all that was recorded.
    """
    with tempfile.TemporaryDirectory(prefix="fencepost-chaos-record-") as copy:
        with stack.stopped("ses") as stopped:
            if not stopped:
                return None
            for file in sorted((stack.directory / "ses").glob(f"{FILE_NAME}*")):  # the database before its log
                shutil.copy(file, copy)
        with Record(Path(copy)) as record:
            submissions = await record.submissions()
            published = [
                _notification(submission, publication)
                for submission in submissions
                for publication in await record.run(publications.of_submission, submission.id)
            ]
    return Recorded(requests=tuple(map(_request, submissions)), notifications=tuple(published))


def _request(submission: Submission) -> Request:
    local, domain = faults.unlabelled(addr_spec(submission.request.destination.to_addresses[0]))
    return Request(
        message_id=submission.request.tags["fencepost_message"],
        attempt=int(submission.request.tags["fencepost_attempt"]),
        at=datetime.fromisoformat(submission.at),
        answer=submission.answer,
        ses_message_id=submission.ses_message_id,
        recipient=local if domain in _SPECIAL_DOMAINS else None,
    )


def _notification(submission: Submission, publication: publications.Publication) -> Notification:
    bounce = publication.event.bounce
    if bounce is not None:
        word = EventType.BOUNCE if bounce.type == "Permanent" else EventType.SOFT_BOUNCE
    else:
        word = _WORDS.get(publication.event.type, EventType.OTHER)
    return Notification(
        id=publication.sns_message_id,
        message_id=submission.request.tags["fencepost_message"],
        attempt=int(submission.request.tags["fencepost_attempt"]),
        type=word,
        tries=publication.tries,
        over=publication.due_at is None,
        taken=publication.status is not None and publications.is_taken(publication.status),
    )
