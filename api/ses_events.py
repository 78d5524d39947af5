"""What SES says about a mail, read out of an SNS message: ids, codes and hashes, and none of its addresses or texts."""

import hashlib
import hmac
import json
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from api import addresses
from api.faults import InvalidRequest
from api.fields import Fields
from api.strict_json import MAX_DEPTH, JsonObject, JsonValue
from db.outcomes import EventType, Reason
from db.records import NamedRecipient, ProviderEvent

#: As intake names it.
_PROVIDER: Final = "ses"
#: SNS and SQS carry no more.
MAX_LENGTH: Final = 256 * 1024
#: SES takes no more in one mail.
_MAX_RECIPIENTS: Final = 50

_WORD: Final = re.compile(r"[A-Za-z0-9 ._-]{1,64}")
_TYPE: Final = re.compile(r"[A-Za-z ]{1,32}")
_STATUS: Final = re.compile(r"[245]\.[0-9]{1,3}\.[0-9]{1,3}")
_PROVIDER_MESSAGE_ID: Final = re.compile(r"[!-~]{1,256}")
#: As SES takes them (MessageTag in its API).
_TAG: Final = re.compile(r"[A-Za-z0-9_.@-]{1,256}")

#: What SES puts on its own list of suppressed addresses, and then doesn't mail.
_SUPPRESSED: Final = frozenset({"Suppressed", "OnAccountSuppressionList"})


def read(message: str, *, notification_id: str, address_key: bytes) -> ProviderEvent | None:
    """Return the event in a message, or None where it is none of SES's about a mail.

    None are AWS's own notes when a topic is set up, other people's texts, and JSON that is too long or too deep.
    Unknown types are `other`, unknown members are ignored, and a known member of a wrong type is a missing one: nothing
    that AWS may add makes this raise. Read leniently on purpose: the headers that come along are whatever the sender
    and its users wrote, and an event that isn't taken could leave its message ambiguous.

    Args:
        message: The envelope's `Message`.
        notification_id: SNS's id of it.
        address_key: Keys the hashes of addresses.

    """
    event = _parsed(message)
    type_text = _text(event, "eventType") or _text(event, "notificationType")
    if type_text is None or not isinstance(event.get("mail"), dict):
        return None
    mail = _object(event, "mail")
    body = _object(event, _member(type_text))
    tags = _object(mail, "tags")
    kind, reason = _meaning(type_text, body)
    return ProviderEvent(
        provider=_PROVIDER,
        notification_id=notification_id,
        natural_key=_natural_key(type_text, event, address_key),
        type=kind,
        recipients=tuple(_recipients(type_text, body, address_key)),
        provider_message_id=_word(mail.get("messageId"), _PROVIDER_MESSAGE_ID),
        message_tag=_tag(tags, "fencepost_message"),
        attempt_tag=_tag(tags, "fencepost_attempt"),
        reason=reason,
        detail=_detail(type_text, kind, body),
        occurred_at=_moment(body.get("timestamp")) or _moment(mail.get("timestamp")),
    )


def _parsed(message: str) -> JsonObject:
    """Return the object that a message is; an empty one where it is something else."""
    if len(message) > MAX_LENGTH:
        return {}
    try:
        value: JsonValue = json.loads(message)
    except (ValueError, RecursionError):
        return {}
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [child for each in level for child in _children(each)]
    return value if isinstance(value, dict) and not level else {}


def _children(value: JsonValue) -> Iterator[JsonValue]:
    match value:
        case dict():
            yield from value.values()
        case list():
            yield from value
        case _:
            return


def _member(type_text: str) -> str:
    """Return the name of the member that holds what is particular to a type."""
    return "failure" if type_text == "Rendering Failure" else type_text[:1].lower() + type_text[1:]


def _meaning(type_text: str, body: JsonObject) -> tuple[EventType, Reason | None]:
    match type_text:
        case "Send":
            return EventType.SEND, None
        case "Delivery":
            return EventType.DELIVERY, None
        case "DeliveryDelay":
            return EventType.DELAY, None
        case "Bounce":
            on_list = _text(body, "bounceSubType") in _SUPPRESSED
            # Undetermined is not permanent; an out-of-office reply comes as Transient, without a status code.
            kind = EventType.BOUNCE if _text(body, "bounceType") == "Permanent" else EventType.SOFT_BOUNCE
            return kind, Reason.PROVIDER_SUPPRESSION_LIST if on_list else None
        case "Complaint":
            # Nobody complained about this mail: SES didn't send it, since somebody had about another one.
            if _text(body, "complaintSubType") in _SUPPRESSED:
                return EventType.BOUNCE, Reason.PROVIDER_SUPPRESSION_LIST
            return EventType.COMPLAINT, None
        case "Reject" | "Rendering Failure":
            return EventType.REJECT, Reason.REJECTED
        case _:
            return EventType.OTHER, None


def _recipients(type_text: str, body: JsonObject, address_key: bytes) -> Iterator[NamedRecipient]:
    """Give whom an event names, each once; what can't be the address of a mail of ours is left out."""
    named = {
        "Bounce": "bouncedRecipients",
        "Complaint": "complainedRecipients",
        "Delivery": "recipients",
        "DeliveryDelay": "delayedRecipients",
    }.get(type_text)
    entries = body.get(named) if named else None
    seen = set()
    for entry in entries[:_MAX_RECIPIENTS] if isinstance(entries, list) else []:
        # Deliveries name addresses only; everything else has objects.
        members: JsonObject = entry if isinstance(entry, dict) else {"emailAddress": entry}
        text = _text(members, "emailAddress") or ""
        # SES repeats the name as it came, which need not be quoted as the RFC says.
        spec = text[text.rfind("<") + 1 : -1] if text.endswith(">") else text
        try:
            address_hash = addresses.parse(spec.strip()).hashed(address_key)
        except InvalidRequest:
            continue
        if address_hash not in seen:
            seen.add(address_hash)
            yield NamedRecipient(address_hash=address_hash, status=_word(members.get("status"), _STATUS))


def _detail(type_text: str, kind: EventType, body: JsonObject) -> dict[str, str]:
    """Give SES's own classes; never its texts, in which addresses stand."""
    members = {
        "Bounce": {"bounce_type": "bounceType", "bounce_sub_type": "bounceSubType"},
        "Complaint": {"complaint_type": "complaintFeedbackType", "complaint_sub_type": "complaintSubType"},
        "DeliveryDelay": {"delay_type": "delayType"},
    }.get(type_text, {})
    words = {name: _word(body.get(member), _WORD) for name, member in members.items()}
    # Only where our own type doesn't say it.
    if kind in (EventType.OTHER, EventType.REJECT):
        words["type"] = _word(type_text, _TYPE)
    return {name: word for name, word in words.items() if word is not None}


def _natural_key(type_text: str, event: JsonObject, address_key: bytes) -> str:
    """Return a digest of what an event says; keyed, since addresses are in it, and could be guessed otherwise."""
    mail = _object(event, "mail")
    particular = {name: value for name, value in event.items() if name != "mail"}
    said = [type_text, mail.get("messageId"), mail.get("tags"), particular]
    return hmac.digest(address_key, json.dumps(said, sort_keys=True).encode(), hashlib.sha256).hex()


def _moment(value: JsonValue) -> datetime | None:
    fields = Fields()
    moment = fields.time(value, "")
    return None if fields.faults else moment


def _tag(tags: JsonObject, name: str) -> str | None:
    values = tags.get(name)
    return _word(values[0], _TAG) if isinstance(values, list) and values else None


def _word(value: JsonValue, form: re.Pattern[str]) -> str | None:
    return value if isinstance(value, str) and form.fullmatch(value) is not None else None


def _text(members: JsonObject, name: str) -> str | None:
    value = members.get(name)
    return value if isinstance(value, str) else None


def _object(members: JsonObject, name: str) -> JsonObject:
    value = members.get(name)
    return value if isinstance(value, dict) else {}
