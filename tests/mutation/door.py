"""The guards at the API's door: whose key it is, how often it may ask, and what a list shows whom."""

from typing import Final

from tests.mutation.mutant import Mutant, Source

_AUTH: Final = Source("api/auth.py", "tests/api/test_authentication.py")
_CREDENTIALS: Final = Source("db/credentials.py", "tests/db/test_credentials.py")
_RATES: Final = Source("db/rates.py", "tests/db/test_rates.py")
_PAGES: Final = Source("api/pages.py", "tests/api/test_message_list.py")
_READING: Final = Source("db/reading.py", "tests/api/test_message_list.py")
_MESSAGES: Final = Source("api/messages.py", "tests/api/test_message_list.py")

_WRONG: Final = "test_whatever_is_wrong_with_a_key_the_answer_is_the_same"
_NO_QUERY: Final = "test_a_key_that_was_never_made_is_refused_without_a_query"
_NOT_COUNTED: Final = "tests/api/test_rate_limit.py::test_reading_is_neither_counted_nor_refused"
_REFUSED: Final = "test_a_query_that_nobody_understands_is_refused"
_NEWEST_FIRST: Final = "test_messages_are_listed_newest_first_and_each_once"

_KEYS: Final = (
    _AUTH.changed(
        "auth: scope",
        "if scope not in credential.scopes or credential.tenant_id is None:",
        "if credential.tenant_id is None:",
        "a tenant's key opens everything that is the tenant's",
        "tests/api/test_message_list.py::test_listing_needs_the_scope_to_read",
    ),
    _AUTH.changed(
        "auth: tenant of an operator's key",
        " or credential.tenant_id is None:",
        ":",
        "a key of no tenant is taken for a tenant's",
        "tests/api/test_senders.py::test_senders_need_their_own_scope[GET-/v1/senders]",
        stands_in="a CHECK gives a key of no tenant the scope `operator` alone",
    ),
    _AUTH.changed(
        "auth: operator",
        "if Scope.OPERATOR not in credential.scopes:",
        "if False:",
        "a tenant's key does what operators do",
        "tests/api/test_tenants.py::test_a_tenants_key_does_nothing_that_operators_do[GET-/v1/tenants]",
    ),
    _AUTH.changed(
        "auth: secret",
        "if not same or credential is None",
        "if credential is None",
        "whoever knows the public half of a key is let in",
        _WRONG,
    ),
    _AUTH.changed(
        "auth: same time",
        "same = keys.matches(self._pepper, key.secret, stored)",
        "same = credential is not None and keys.matches(self._pepper, key.secret, stored)",
        "the time of an answer tells whether there is such a key",
        "test_a_secret_is_compared_in_the_same_time_also_where_there_is_none",
    ),
    _AUTH.without("auth: expired", " or credential.expired", "an expired key is let in", _WRONG),
    _AUTH.without("auth: revoked", " or credential.revoked", "a revoked key is let in", _WRONG),
    _AUTH.without(
        "auth: environment",
        " or key.environment != self._environment",
        "a key that names another deployment is let in",
        _WRONG,
        _NO_QUERY,
    ),
    _AUTH.changed(
        "auth: one header",
        "if len(given) == 1 else",
        "if given else",
        "of two keys in one request, the first is taken",
        _WRONG,
    ),
    _AUTH.changed(
        "auth: disabled tenant",
        "if not self.tenant_active:",
        "if False:",
        "a disabled tenant makes new things",
        "tests/api/test_tenants.py::test_a_tenant_that_is_switched_off_takes_nothing_new_until_it_is_on_again",
    ),
    _AUTH.changed(
        "auth: use noted before",
        "if not credential.use_noted:",
        "if True:",
        "each request costs a statement that writes nothing",
        "test_the_use_of_a_key_is_noted_once_a_minute",
        stands_in="NOTE_USE has the same condition",
    ),
    _AUTH.changed(
        "auth: use not noted",
        "with suppress(UnavailableError):",
        "with suppress():",
        "a request fails because its key's use could not be noted",
        "test_no_call_fails_because_a_use_could_not_be_noted",
    ),
    _CREDENTIALS.changed(
        "CREDENTIAL: expired",
        'sa.func.coalesce(credentials.c.expires_at <= _NOW, sa.false()).label("expired")',
        'sa.false().label("expired")',
        "a key never expires",
        "test_a_key_is_found_with_all_that_decides_on_it",
    ),
    _CREDENTIALS.changed(
        "CREDENTIAL: Postgres's clock",
        "_NOW: Final = sa.func.clock_timestamp()",
        "_NOW: Final = sa.func.clock_timestamp() - sa.literal(timedelta(seconds=1), sa.Interval)",
        "a key is let in for a second after it has expired",
        "test_a_key_is_found_with_all_that_decides_on_it",
    ),
    _CREDENTIALS.changed(
        "CREDENTIAL: tenant's state",
        'tenants.c.state == "active"',
        "tenants.c.state.is_not(None)",
        "a disabled tenant counts as active",
        "test_a_key_is_found_with_all_that_decides_on_it",
    ),
    _CREDENTIALS.without(
        "NOTE_USE: once a minute",
        ", sa.not_(_USE_NOTED)",
        "each request writes into its key's row",
        "test_a_use_is_noted_once_a_minute",
    ),
    _CREDENTIALS.without(
        "NOTE_USE: skip locked",
        "skip_locked=True, ",
        "requests with one key wait for each other",
        "test_of_many_uses_at_once_none_waits_for_another",
    ),
)

_RATE: Final = (
    _AUTH.without("rate: reading", ' and request.method != "GET"', "reading is counted against the rate", _NOT_COUNTED),
    _AUTH.changed(
        "rate: refusal",
        "if wait is not None:",
        "if False:",
        "who asks too often is let in all the same",
        "tests/api/test_rate_limit.py::test_a_burst_is_admitted_exactly_and_then_told_when_to_come_again",
    ),
    _RATES.changed(
        "TAKE: idleness",
        "sa.func.greatest(rate_limits.c.full_until, _NOW) + _EACH",
        "rate_limits.c.full_until + _EACH",
        "who has been away for a day may make a day's requests at once",
        "test_what_drains_makes_room_and_idleness_saves_nothing_up[-9 days-3]",
    ),
    _RATES.without(
        "TAKE: burst",
        ", where=_FULL_UNTIL - _BURST <= _NOW",
        "nobody is refused",
        "test_a_burst_is_admitted_exactly[2]",
    ),
    _RATES.changed(
        "TAKE: burst, exactly",
        "where=_FULL_UNTIL - _BURST <= _NOW",
        "where=_FULL_UNTIL - _BURST - _EACH <= _NOW",
        "a burst has one request more than it may",
        "test_a_burst_is_admitted_exactly[2]",
    ),
    _RATES.without(
        "TAKE: whose wait",
        "    .where(rate_limits.c.tenant_id == _TENANT)\n",
        "a tenant is told of others' waits",
        "test_tenants_are_counted_apart",
    ),
)

_CURSOR: Final = (
    _PAGES.changed(
        "cursor: filters",
        '["v1", of, filters]',
        '["v1", of]',
        "a cursor goes on in a list of other filters",
        "test_a_cursor_of_other_filters_is_refused",
    ),
    _PAGES.changed(
        "cursor: list and owner",
        '["v1", of, filters]',
        '["v1", filters]',
        "a cursor goes on in another tenant's list, and in another list",
        "test_another_tenants_cursor_is_refused",
        "tests/api/test_tenants.py::test_a_cursor_is_good_for_its_own_list_only",
    ),
    _PAGES.without(
        "cursor: place",
        ' + b"\\n" + seen',
        "a cursor's place may be written anew",
        "test_a_cursor_with_any_character_changed_is_refused",
    ),
    _PAGES.without(
        "cursor: spelling", "not exact or ", "a cursor has many spellings", "test_a_cursor_has_one_spelling"
    ),
    _PAGES.changed(
        "cursor: limit",
        'not in ("limit", "cursor")',
        '!= "cursor"',
        "a cursor is bound to the limit of its first page",
        "test_a_cursor_goes_on_with_another_limit",
    ),
    _PAGES.changed(
        "limit: most",
        "not 1 <= int(text) <= MAX_LIMIT",
        "not 1 <= int(text)",
        "a page may have any size",
        f"{_REFUSED}[limit=101-/limit-out_of_range]",
    ),
    _PAGES.changed(
        "limit: least",
        "not 1 <= int(text) <= MAX_LIMIT",
        "int(text) > MAX_LIMIT",
        "a page may have no item, and no end",
        f"{_REFUSED}[limit=0-/limit-out_of_range]",
    ),
    _PAGES.changed(
        "query: unknown",
        'if not {*known, "limit", "cursor"}.issuperset(self.given):',
        "if False:",
        "a filter that nobody knows is left out of account",
        f"{_REFUSED}[order=asc--unknown_field]",
    ),
    _PAGES.changed(
        "query: twice",
        "elif len(self.given) != len(request.query_params.multi_items()):",
        "elif False:",
        "of two values of one filter, the last is taken",
        f"{_REFUSED}[state=dead&state=queued--duplicate]",
    ),
)

_LIST: Final = (
    _READING.without(
        "MESSAGES: tenant",
        ".where(messages.c.tenant_id == _TENANT)",
        "messages of all tenants are listed and read",
        "test_nobody_elses_messages_are_listed",
        "tests/api/test_messages.py::test_somebody_elses_message_an_unknown_id_and_a_malformed_one_look_alike",
    ),
    _READING.changed(
        "newest_first: id",
        "place < sa.tuple_(after.created_at, after.message_id)",
        "messages.c.created_at < after.created_at",
        "of messages of one moment, a page's end leaves the rest out",
        _NEWEST_FIRST,
    ),
    _READING.changed(
        "newest_first: past the place",
        "place < sa.tuple_(after.created_at, after.message_id)",
        "place <= sa.tuple_(after.created_at, after.message_id)",
        "a page begins with the last message of the page before",
        _NEWEST_FIRST,
    ),
    _READING.changed(
        "newest_first: created_after",
        "messages.c.created_at >= wanted.created_after",
        "messages.c.created_at > wanted.created_after",
        "the moment itself is left out",
        "test_the_times_are_inclusive_and_exclusive",
    ),
    _READING.changed(
        "newest_first: created_before",
        "messages.c.created_at < wanted.created_before",
        "messages.c.created_at <= wanted.created_before",
        "the moment itself is taken in",
        "test_the_times_are_inclusive_and_exclusive",
    ),
    _READING.changed(
        "newest_first: tag",
        "messages.c.tags.contains(sa.literal(dict([wanted.tag]), JSONB))",
        "messages.c.tags.has_key(wanted.tag[0])",
        "a tag's value is left out of account",
        "test_purpose_and_tags_filter_and_hold_together",
    ),
    _PAGES.changed(
        "list: one more",
        "return self.limit + 1",
        "return self.limit",
        "a list ends with its first page",
        _NEWEST_FIRST,
    ),
    _PAGES.changed(
        "list: a full last page",
        "if len(found) > query.limit:",
        "if len(found) >= query.limit:",
        "after a last page that is full comes an empty one",
        "test_a_list_that_fills_its_last_page_exactly_has_no_empty_one",
    ),
    _MESSAGES.changed(
        "message: id's form",
        "if not re.fullmatch(_UUID, text):",
        'if not re.fullmatch(_UUID, text.strip("{}")):',
        "a message has more than one address",
        "tests/api/test_messages.py::test_an_id_has_one_form",
        "tests/api/test_operators.py::test_an_id_in_another_form_is_nobodys",
    ),
)

GUARDS: Final[tuple[Mutant, ...]] = (*_KEYS, *_RATE, *_CURSOR, *_LIST)
