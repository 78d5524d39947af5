"""The guards of activities/ses.py and activities/watched_http.py: one request, bounded, and what its answer means."""

from typing import Final

from tests.mutation.mutant import Mutant, Source

_IN: Final = Source("activities/ses.py", "tests/activities/test_ses.py")
_HTTP: Final = Source("activities/watched_http.py", "tests/activities/test_ses.py")
_TABLE: Final = "test_every_answer_means_what_the_table_says_after_one_request"

_ONCE: Final = (
    _IN.changed(
        "SES: one request",
        'retries={"total_max_attempts": 1, "mode": "standard"}',
        'retries={"mode": "standard"}',
        "boto3 retries a submission as the environment says",
        f"{_TABLE}[500]",
        "test_no_retry_mode_makes_a_second_request",
    ),
    _IN.changed(
        "SES: one request, asserted",
        '        if retries.get("total_max_attempts") != 1:\n',
        "        if False:\n",
        "a start does not ask whether boto3 would retry",
        f"{_TABLE}[500]",
        stands_in="the option itself holds against every environment that the tests know",
    ),
)

_CLASSIFY: Final = (
    _IN.without(
        "classify: answer",
        "        case ClientError():\n            return _classify_answer(error)\n",
        "an answer with an error status is not read",
        f"{_TABLE}[rejected]",
    ),
    _IN.without(
        "classify: parameters",
        "        case ParamValidationError():\n            return _result(Outcome.REJECTED, Reason.REQUEST_INVALID)\n",
        "a request that the client library refuses is unknown",
        "test_parameters_that_the_client_library_refuses_are_rejected_before_any_request",
    ),
    _IN.without(
        "classify: credentials",
        "        case NoCredentialsError() | PartialCredentialsError() | CredentialRetrievalError() |"
        " NoAuthTokenError():\n"
        "            return _result(Outcome.REFUSED, Reason.CREDENTIALS_REFUSED)\n",
        "a call without credentials is unknown",
        "test_missing_credentials_are_an_account_matter",
    ),
    _IN.without(
        "classify: unreachable",
        "        case EndpointConnectionError() | ConnectTimeoutError() if not watch.sent:\n"
        "            return _result(Outcome.NOT_SUBMITTED, Reason.PROVIDER_UNREACHABLE)\n",
        "a connection that did not come about is unknown",
        "test_a_refused_connection_submits_nothing",
    ),
    _IN.changed(
        "classify: unreachable, and no byte left",
        "        case EndpointConnectionError() | ConnectTimeoutError() if not watch.sent:\n",
        "        case EndpointConnectionError() | ConnectTimeoutError():\n",
        "the kind of an error alone says that nothing was submitted",
        "test_no_kind_of_error_says_that_nothing_was_submitted_where_a_byte_may_have_left",
    ),
    _IN.without(
        "classify: too late",
        "        case _ if watch.fired and not watch.sent:\n"
        "            return _result(Outcome.NOT_SUBMITTED, Reason.CALL_TOO_LATE)\n",
        "a call that was too late to send is unknown",
        "test_a_call_that_is_too_late_sends_nothing",
    ),
    _IN.changed(
        "classify: too late, and no byte left",
        "        case _ if watch.fired and not watch.sent:\n",
        "        case _ if watch.fired:\n",
        "a call that met its deadline counts as not submitted",
        "test_the_call_budget_ends_a_call_whatever_the_provider_does[hang]",
    ),
    _IN.without(
        "classify: budget over",
        "        case HTTPClientError() | BotoConnectionError() if watch.fired:\n"
        "            return _result(Outcome.UNKNOWN, Reason.PROVIDER_TIMEOUT)\n",
        "a call that met its deadline is told as a lost connection",
        "test_the_call_budget_ends_a_call_whatever_the_provider_does[hang]",
    ),
    _IN.without(
        "classify: read timeout",
        "        case ReadTimeoutError():\n            return _result(Outcome.UNKNOWN, Reason.PROVIDER_TIMEOUT)\n",
        "a read timeout is told as a lost connection",
        f"{_TABLE}[no answer]",
    ),
    _IN.without(
        "classify: connection lost",
        "        case HTTPClientError() | BotoConnectionError():  # the latter is TLS's, too: it comes before and after"
        " sending\n"
        "            return _result(Outcome.UNKNOWN, Reason.CONNECTION_LOST)\n",
        "a lost connection is told as an error of the provider",
        f"{_TABLE}[reset after reading]",
    ),
    _IN.without(
        "classify: unreadable",
        "        case ResponseParserError():\n"
        "            return _result(Outcome.UNKNOWN, Reason.RESPONSE_UNREADABLE)\n",
        "an answer that does not parse is told as an error of the provider",
        "test_an_error_that_says_nothing_of_what_was_sent_is_unknown[unreadable]",
    ),
    _IN.changed(
        "classify: everything else is unknown",
        "        case _:\n            return _result(Outcome.UNKNOWN, Reason.PROVIDER_ERROR)\n",
        "        case _:\n            return _result(Outcome.NOT_SUBMITTED, Reason.PROVIDER_ERROR)\n",
        "an error that nobody foresaw counts as not submitted",
        "test_an_error_that_says_nothing_of_what_was_sent_is_unknown[unforeseen]",
    ),
)

_STATUS: Final = "    if 400 <= status < 500 and status != 408:"
_ANSWER: Final = (
    _IN.changed(
        "answer: below 400",
        _STATUS,
        "    if status < 500 and status != 408:",
        "a redirect is read like a refusal",
        f"{_TABLE}[302 that says rejected]",
    ),
    _IN.changed(
        "answer: 5xx",
        _STATUS,
        "    if 400 <= status and status != 408:",
        "a server error is read like a refusal",
        f"{_TABLE}[500 that says throttled]",
    ),
    _IN.changed(
        "answer: 408",
        _STATUS,
        "    if 400 <= status < 500:",
        "a request timeout is read like a refusal",
        f"{_TABLE}[408 that says throttled]",
    ),
    _IN.changed(
        "answer: 429",
        "if status == 429 or code in _THROTTLED:",
        "if code in _THROTTLED:",
        "429 without a code that is known is unknown",
        f"{_TABLE}[429 without a code]",
    ),
    _IN.changed(
        "answer: throttled",
        "if status == 429 or code in _THROTTLED:",
        "if status == 429:",
        "throttling under another status than 429 is unknown",
        f"{_TABLE}[throttled]",
    ),
    _IN.changed(
        "answer: daily quota",
        "Reason.QUOTA_EXCEEDED if _DAILY_QUOTA in text else Reason.THROTTLED",
        "Reason.THROTTLED",
        "the daily quota is asked about again soon",
        f"{_TABLE}[daily quota]",
    ),
    _IN.changed(
        "answer: account paused",
        "elif code in _ACCOUNT_PAUSED:",
        "elif False:",
        "a paused account is unknown",
        f"{_TABLE}[paused]",
    ),
    _IN.changed(
        "answer: credentials",
        "elif code in _CREDENTIALS:",
        "elif False:",
        "refused credentials are unknown",
        f"{_TABLE}[ExpiredTokenException]",
    ),
    _IN.changed(
        "answer: rejected",
        "elif code in _REJECTED:",
        "elif False:",
        "a final no is unknown",
        f"{_TABLE}[rejected]",
    ),
    _IN.changed(
        "answer: known codes only",
        "code=code if code in known else str(status)",
        "code=code",
        "whatever an answer calls its code is stored",
        f"{_TABLE}[unknown code]",
    ),
    _IN.changed(
        "answer: yes needs an id",
        "        if not message_id:",
        "        if False:",
        "an answer without a message id is an acceptance",
        f"{_TABLE}[2xx without an id]",
    ),
)

_WATCH: Final = (
    _IN.changed(
        "watch: deadline",
        "with Watch(deadline) as watch:",
        "with Watch(deadline + 3600) as watch:",
        "no call budget bounds a call",
        "test_a_call_that_is_too_late_sends_nothing",
        "test_the_call_budget_ends_a_call_whatever_the_provider_does[drip]",
    ),
    _HTTP.without(
        "watch: gate before the first byte",
        "            if self.fired or time.monotonic() >= self._deadline:\n                raise TooLateError\n",
        "a call that is too late sends all the same",
        "test_a_call_that_is_too_late_sends_nothing",
    ),
    _HTTP.without(
        "watch: byte noted",
        "            self.sent = True\n",
        "nobody notes that a byte of the request has left",
        "test_the_call_budget_ends_a_call_whatever_the_provider_does[hang]",
    ),
    _HTTP.without(
        "watch: timer",
        "        self._timer.start()\n",
        "the deadline does not end an answer that drips",
        "test_the_call_budget_ends_a_call_whatever_the_provider_does[drip]",
    ),
    _HTTP.changed(
        "watch: nobody watches",
        "            raise TooLateError  # an unwatched",
        "            return super().send(data)  # an unwatched",
        "a request that nobody watches is sent",
        "test_a_request_that_nobody_watches_is_not_sent",
    ),
    _HTTP.changed(
        "watch: rested connection",
        "self.sock is not None and time.monotonic() - self._rests_since > self.longest_rest",
        "False",
        "a request goes out on a connection that the provider may be closing",
        "test_a_connection_that_rested_too_long_is_opened_anew[0.0-2]",
    ),
)

GUARDS: Final[tuple[Mutant, ...]] = (*_ONCE, *_CLASSIFY, *_ANSWER, *_WATCH)
