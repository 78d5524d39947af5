"""A tenant's suppressions as CSV: taken out whole, brought in line by line, and never a 500."""

import asyncio
import csv
import io
import itertools
import tracemalloc
from contextlib import suppress
from typing import Any

import asyncpg
import httpx
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from api.csv_records import Record, UnreadableCsvError, records
from api.faults import InvalidRequest
from api.suppression_csv import read
from db.ids import TenantId
from tests.api.conftest import Api
from tests.api.test_messages import problem
from tests.api.test_suppressions import PATH, added, another, listed, removed

HEADER = "address,scope,reason,created_at\r\n"


@pytest.fixture
async def tenant(api: Api, superuser: asyncpg.Connection) -> TenantId:
    """Give a tenant of this test's own, and the API a key of it."""
    return await another(api, superuser)


async def brought_in(api: Api, body: str | bytes, kind: str = "text/csv") -> httpx.Response:
    content = body.encode() if isinstance(body, str) else body
    headers = api.authorized({"Content-Type": kind})
    return await api.http.post(f"{PATH}/import", headers=headers, content=content)


async def taken_in(api: Api, body: str | bytes) -> dict[str, Any]:
    answer = await brought_in(api, body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def exported(api: Api) -> str:
    answer = await api.ask("GET", f"{PATH}/export")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"] == 'attachment; filename="suppressions.csv"'
    return answer.text


@pytest.mark.usefixtures("tenant")
async def test_an_export_has_all_that_holds_oldest_first(api: Api) -> None:
    assert await exported(api) == HEADER
    made = [await added(api, address) for address in ("Ada@example.com", "b@BÜCHER.example.com", "c@example.com")]
    made.append(await added(api, "ada@example.com", scope="newsletter"))
    await removed(api, made.pop(2))

    rows = list(csv.DictReader(io.StringIO(await exported(api), newline="")))

    made.sort(key=lambda each: each["id"])
    assert rows == [{name: each[name] for name in HEADER.strip().split(",")} for each in made]


@pytest.mark.usefixtures("tenant")
async def test_a_list_is_brought_in_and_what_was_there_is_counted(api: Api) -> None:
    first = await added(api, "ada@example.com")
    text = (
        "address,scope\r\nAda@example.com,\r\nbob@BÜCHER.example.com,newsletter\r\n"
        "bob@xn--bcher-kva.example.com,newsletter\r\nbob@xn--bcher-kva.example.com,all\r\n"
    )

    once, again = await taken_in(api, text), await taken_in(api, text)

    assert once == {"added": 2, "already": 2, "rejected": [], "rejected_total": 0}
    assert again == {"added": 0, "already": 4, "rejected": [], "rejected_total": 0}
    assert await listed(api, "ada@example.com") == [first]
    found = await listed(api, "bob@bücher.example.com")
    assert {(each["scope"], each["reason"]) for each in found} == {("newsletter", "manual"), ("all", "manual")}


@pytest.mark.usefixtures("tenant")
async def test_faulty_lines_are_named_and_the_others_taken(api: Api) -> None:
    text = (
        'address,scope\nada@example.com,all\ncanary,all\n\n"bob@example.com","canary\nx"\n,all\n , \n'
        "eve@example.com\nc@example.com,all,canary\nd@example.com,Canary\nCanary <e@example.com>,all\n"
        f"{'c' * 400},all\nf@example.com,x\n"
    )

    answer = await brought_in(api, text)

    assert "canary" not in answer.text.lower()
    assert answer.json() == {
        "added": 2,
        "already": 0,
        "rejected": [
            {"line": 3, "code": "address_invalid"},
            {"line": 5, "code": "invalid_format"},
            {"line": 7, "code": "address_invalid"},
            {"line": 9, "code": "csv_columns"},
            {"line": 10, "code": "csv_columns"},
            {"line": 11, "code": "invalid_format"},
            {"line": 12, "code": "address_invalid"},
            {"line": 13, "code": "too_long"},
        ],
        "rejected_total": 8,
    }


@pytest.mark.usefixtures("tenant")
async def test_of_many_faulty_lines_the_first_hundred_are_named(api: Api) -> None:
    result = await taken_in(api, "address\n" + "nobody\n" * 150)

    assert [each["line"] for each in result["rejected"]] == list(range(2, 102))
    assert (result["added"], result["rejected_total"]) == (0, 150)


@pytest.mark.usefixtures("tenant")
@pytest.mark.parametrize(
    "text",
    [
        "address\nada@example.com\n",
        "address\r\nada@example.com",
        "\ufeffaddress\r\n\r\nada@example.com\r\n\r\n",
        "\n\naddress\nada@example.com\n",
        '"address"\n"ada@example.com"\n',
        "Name, Address ,Scope\nada,ada@example.com,\n",
        "reason,address\nhard_bounce,ada@example.com\n",
    ],
    ids=repr,
)
async def test_a_list_may_come_from_any_spreadsheet(api: Api, text: str) -> None:
    assert (await taken_in(api, text))["added"] == 1
    (suppression,) = await listed(api, "ada@example.com")
    assert (suppression["scope"], suppression["reason"]) == ("all", "manual")


@pytest.mark.usefixtures("tenant")
@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "csv_header"),
        (b"\n\n", "csv_header"),
        (b"canary@example.com\n", "csv_header"),
        (b"address,address\na@example.com,canary@example.com\n", "csv_header"),
        (b"address,scope,scope\n", "csv_header"),
        (b"address;scope\n", "csv_header"),
        (b"address\ncan\xffary@example.com\n", "csv_encoding"),
        ("address\ncanary@example.com\n".encode("utf-16"), "csv_encoding"),
        (b"address\n\x00canary@example.com\n", "csv_malformed"),
        (b"address,name\na@example.com,can\x00ary\n", "csv_malformed"),
        (b'address\n"canary@example.com\n', "csv_malformed"),
        (b'address\n"canary"@example.com\n', "csv_malformed"),
        (b'address\na@example.com\n"', "csv_malformed"),
        (b"address\rcanary@example.com\r", "csv_malformed"),
        (b'address\n"' + b"x" * 200_000 + b'"\n', "csv_malformed"),
    ],
    ids=lambda value: repr(value)[:60],
)
async def test_what_is_no_list_is_refused_whole(api: Api, body: bytes, code: str) -> None:
    answer = await brought_in(api, body)

    assert problem(answer) == (422, "invalid_request")
    assert [(error["pointer"], error["code"]) for error in answer.json()["errors"]] == [("", code)]
    assert "canary" not in answer.text
    assert await exported(api) == HEADER


@pytest.mark.usefixtures("tenant")
async def test_a_list_is_csv_and_not_too_large(api: Api) -> None:
    text = "address\n"

    kinds = [await brought_in(api, text, kind) for kind in ("application/json", "text/plain", "")]
    large = await brought_in(api, text + "a@example.com\n" * 20_000)
    in_full = await brought_in(api, text, "Text/CSV; charset=utf-8; header=present")

    assert [problem(answer) for answer in kinds] == [(415, "unsupported_media_type")] * 3
    assert problem(large) == (413, "request_too_large")
    assert in_full.status_code == 200


@pytest.mark.usefixtures("tenant")
async def test_an_export_knows_no_parameters(api: Api) -> None:
    assert problem(await api.ask("GET", f"{PATH}/export?scope=all")) == (422, "invalid_request")


@pytest.mark.usefixtures("tenant")
async def test_the_words_export_and_import_are_no_ids(api: Api) -> None:
    answers = [
        await api.ask("DELETE", f"{PATH}/export", {"reason": "x"}),
        await api.ask("GET", f"{PATH}/import"),
    ]

    assert [problem(answer) for answer in answers] == [(405, "method_not_allowed")] * 2
    assert [answer.headers["allow"] for answer in answers] == ["GET", "POST"]


async def test_a_disabled_tenant_takes_its_list_out_and_brings_none_in(
    api: Api, tenant: TenantId, superuser: asyncpg.Connection
) -> None:
    await added(api)
    await superuser.execute("UPDATE tenants SET state = 'disabled' WHERE id = $1", tenant)

    refused = await brought_in(api, "address\nbob@example.com\n")

    assert problem(refused) == (403, "tenant_disabled")
    assert (await exported(api)).count("\r\n") == 2


async def test_what_one_tenant_exports_another_imports(
    api: Api, tenant: TenantId, superuser: asyncpg.Connection
) -> None:
    """Two thousand lines, and never all of them in memory at once."""
    lines = "".join(f"User.{number}@example{number % 7}.com,scope_{number % 3}\n" for number in range(2000))
    assert (await taken_in(api, "address,scope\n" + lines))["added"] == 2000
    tracemalloc.start()
    text = await exported(api)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    await another(api, superuser)
    assert await exported(api) == HEADER

    result = await taken_in(api, text)

    assert result == {"added": 2000, "already": 0, "rejected": [], "rejected_total": 0}
    assert pairs(await exported(api)) == pairs(text)
    kept = "SELECT count(*) FROM (SELECT DISTINCT address_hash, scope FROM suppressions WHERE tenant_id = $1) AS kept"
    assert await superuser.fetchval(kept, tenant) == 2000
    assert peak < 10 * 2**20


def pairs(text: str) -> set[tuple[str, str]]:
    return {(row["address"], row["scope"]) for row in csv.DictReader(io.StringIO(text, newline=""))}


@pytest.mark.usefixtures("tenant")
async def test_lists_that_come_in_at_once_and_in_other_orders_are_taken_once(api: Api) -> None:
    addresses = [f"{number}@example.com" for number in range(300)]
    lists = [addresses, addresses[::-1], addresses[150:] + addresses[:150]]

    results = await asyncio.gather(*(taken_in(api, "\n".join(["address", *each])) for each in lists))

    assert sum(result["added"] for result in results) == 300
    assert all(result["added"] + result["already"] == 300 for result in results)


GOOD = b'address,scope\r\nada@example.com,all\r\n"bob@example.com",x\r\n\r\nnobody,all\r\n'


@st.composite
def tampered(draw: st.DrawFn) -> bytes:
    """Draw a list in which a few bytes are others, or more, or gone."""
    body = bytearray(GOOD)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(body)))
        gone = draw(st.integers(0, 3))
        body[at : at + gone] = draw(st.sampled_from([b'"', b",", b"\r", b"\n", b"\0", b"\xff", b"\xc3\xa9", b"", b"@"]))
    return bytes(body)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=tampered())
@pytest.mark.usefixtures("tenant")
async def test_a_list_that_was_tampered_with_is_taken_or_refused(api: Api, body: bytes) -> None:
    answer = await brought_in(api, body)

    assert answer.status_code in (200, 422), answer.text
    if answer.status_code == 422:
        assert problem(answer) == (422, "invalid_request")


@given(text=st.text(alphabet='a@.,"\r\n\0 é', max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        entries, rejected = read(f"address\n{text}".encode())
    except InvalidRequest:
        return
    assert len(entries) + len(rejected) <= text.count("\n") + 1


@given(text=st.text(alphabet='ab,"\r\n ', max_size=60))
def test_records_stand_in_order_and_none_shares_a_line_with_another(text: str) -> None:
    found: list[Record] = []

    with suppress(UnreadableCsvError):
        found.extend(records(text))

    assert all(each.first <= each.last <= text.count("\n") + 1 for each in found)
    assert all(before.last < after.first for before, after in itertools.pairwise(found))
