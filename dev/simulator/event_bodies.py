"""Provider events as SES writes them: the JSON that it publishes through a configuration set's SNS destination.

Names and shapes are those of the Amazon SES Developer Guide, "Contents of event data that Amazon SES publishes to
Amazon SNS".
"""

import uuid
from datetime import datetime
from typing import Final, assert_never

from dev.simulator.events import Bounce, Event, EventType
from dev.simulator.record import Submission
from dev.simulator.send_email import SendEmail, addr_spec
from dev.simulator.sns import timestamp

ACCOUNT: Final = "000000000000"
REGION: Final = "us-east-1"

# SES itself gives up after 14 hours.
_EXPIRY_SECONDS: Final = 14 * 3600
_BROWSER: Final = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"
_PERSON: Final[dict[str, object]] = {"ipAddress": "192.0.2.1", "userAgent": _BROWSER}
_SUPPRESSED: Final = (
    "Amazon SES did not send the message to this address because it is on the suppression list for your account."
)
# The key under which an event's own part stands.
_PARTS: Final = {
    EventType.SEND: "send",
    EventType.DELIVERY: "delivery",
    EventType.BOUNCE: "bounce",
    EventType.COMPLAINT: "complaint",
    EventType.REJECT: "reject",
    EventType.DELIVERY_DELAY: "deliveryDelay",
    EventType.RENDERING_FAILURE: "failure",
    EventType.OPEN: "open",
    EventType.CLICK: "click",
}


def event_body(event: Event, submission: Submission, *, sns_message_id: str, happened_at: float) -> dict[str, object]:
    """Return the event about this submission; the same arguments give the same body.

    Args:
        event: What happened, and to whom.
        submission: What was accepted, with its tags.
        sns_message_id: What the feedback id of a bounce or complaint is made of.
        happened_at: The event's own time, in seconds since 1970.

    """
    return {
        "eventType": event.type.value,
        "mail": _mail(submission),
        _PARTS[event.type]: _part(event, submission, sns_message_id, happened_at),
    }


def _part(event: Event, submission: Submission, sns_message_id: str, happened_at: float) -> dict[str, object]:
    at = timestamp(happened_at)
    feedback_id = f"0100{int(happened_at * 1000):012x}-{uuid.uuid5(uuid.NAMESPACE_OID, sns_message_id)}-000000"
    match event.type:
        case EventType.SEND:
            return {}
        case EventType.DELIVERY:
            return _delivery(event, submission, happened_at)
        case EventType.BOUNCE:
            return _bounce(event, event.bounce or Bounce()) | {"timestamp": at, "feedbackId": feedback_id}
        case EventType.COMPLAINT:
            return {
                "complainedRecipients": [{"emailAddress": address} for address in event.recipients],
                "timestamp": at,
                "feedbackId": feedback_id,
                "userAgent": "Fencepost-SES-Simulator-Feedback-Loop/1.0",
                "complaintFeedbackType": "abuse",
                "arrivalDate": at,
            }
        case EventType.REJECT:
            return {"reason": "Bad content"}
        case EventType.DELIVERY_DELAY:
            return _delay(event, happened_at)
        case EventType.RENDERING_FAILURE:
            return {"errorMessage": "Attribute 'name' is not present in the rendering data.", "templateName": "welcome"}
        case EventType.OPEN:
            return _PERSON | {"timestamp": at}
        case EventType.CLICK:
            return _PERSON | {"timestamp": at, "link": "https://example.com/", "linkTags": None}
        case _:
            assert_never(event.type)


def _delivery(event: Event, submission: Submission, happened_at: float) -> dict[str, object]:
    took = happened_at - datetime.fromisoformat(submission.at).timestamp()
    return {
        "timestamp": timestamp(happened_at),
        "processingTimeMillis": max(0, round(took * 1000)),
        "recipients": list(event.recipients),
        "smtpResponse": "250 2.6.0 Message received",
        "reportingMTA": "mta.example.com",
    }


def _bounce(event: Event, bounce: Bounce) -> dict[str, object]:
    part: dict[str, object] = {
        "bounceType": bounce.type,
        "bounceSubType": bounce.sub_type,
        "bouncedRecipients": [_bounced_recipient(address, bounce) for address in event.recipients],
    }
    # As with a recipient's status, SES only has a reporter where there was a delivery status notification.
    return part if bounce.status is None else part | {"reportingMTA": "dsn; mta.example.com"}


def _bounced_recipient(address: str, bounce: Bounce) -> dict[str, str]:
    if bounce.status is None:
        return {"emailAddress": address}
    # Mail servers like to repeat the address in what they say, so that an address may hide in a diagnostic text.
    said = f"smtp; {bounce.status[0]}50 {bounce.status} <{address}>: user unknown"
    return {
        "emailAddress": address,
        "action": "failed",
        "status": bounce.status,
        "diagnosticCode": _SUPPRESSED if bounce.sub_type == "OnAccountSuppressionList" else said,
    }


def _delay(event: Event, happened_at: float) -> dict[str, object]:
    said = "smtp; 421 4.4.1 Unable to connect to remote host"
    return {
        "timestamp": timestamp(happened_at),
        "delayType": "TransientCommunicationFailure",
        "delayedRecipients": [
            {"emailAddress": address, "status": "4.4.1", "diagnosticCode": said} for address in event.recipients
        ],
        "expirationTime": timestamp(happened_at + _EXPIRY_SECONDS),
    }


def _mail(submission: Submission) -> dict[str, object]:
    request = submission.request
    sender = request.from_email_address or ""
    return {
        "timestamp": submission.at,
        "source": sender,
        "sourceArn": f"arn:aws:ses:{REGION}:{ACCOUNT}:identity/{addr_spec(sender)}",
        "sendingAccountId": ACCOUNT,
        "messageId": submission.ses_message_id,
        "destination": [addr_spec(recipient) for recipient in request.recipients],
        "headersTruncated": False,
        "headers": _headers(request),
        "commonHeaders": _common_headers(submission),
        "tags": _tags(request),
    }


def _headers(request: SendEmail) -> list[dict[str, str]]:
    message = request.content.simple
    # The Bcc recipients are in no header, as in the mail itself.
    named = [
        ("From", request.from_email_address or ""),
        ("Reply-To", ", ".join(request.reply_to_addresses)),
        ("To", ", ".join(request.destination.to_addresses)),
        ("Cc", ", ".join(request.destination.cc_addresses)),
        ("Subject", message.subject.data if message else ""),
        ("MIME-Version", "1.0"),
        *((header.name, header.value) for header in (message.headers if message else ())),
    ]
    return [{"name": name, "value": value} for name, value in named if value]


def _common_headers(submission: Submission) -> dict[str, object]:
    request = submission.request
    message = request.content.simple
    headers: dict[str, object] = {
        "from": [request.from_email_address],
        "replyTo": list(request.reply_to_addresses),
        "to": list(request.destination.to_addresses),
        "cc": list(request.destination.cc_addresses),
        "messageId": submission.ses_message_id,
        "subject": message.subject.data if message else "",
    }
    return {name: value for name, value in headers.items() if value}


def _tags(request: SendEmail) -> dict[str, list[str]]:
    own = {
        "ses:source-ip": ["127.0.0.1"],
        "ses:from-domain": [addr_spec(request.from_email_address or "").rpartition("@")[2]],
        "ses:caller-identity": ["simulator"],
    }
    if request.configuration_set_name is not None:
        own["ses:configuration-set"] = [request.configuration_set_name]
    return own | {name: [value] for name, value in request.tags.items()}
