"""A name and an address in a header: they come back as they were, and as one."""

from email import message_from_string, policy
from email.header import decode_header, make_header
from email.utils import getaddresses

import pytest
from hypothesis import given, strategies as st

from activities.mailbox import mailbox

names = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=200).map(str.strip)


@given(names.filter(bool))
def test_a_mailbox_reads_back_as_the_same_name_and_address(name: str) -> None:
    header = mailbox("ada@example.com", name)

    assert header.isascii()
    assert not set(header) & set("\r\n")
    ((encoded, spec),) = getaddresses([header])
    assert spec == "ada@example.com"
    assert str(make_header(decode_header(encoded))) == name
    parsed = message_from_string(f"To: {header}\n\n", policy=policy.default)["To"].addresses
    assert [each.addr_spec for each in parsed] == ["ada@example.com"]


@pytest.mark.parametrize(
    ("name", "header"),
    [
        (None, "ada@example.com"),
        ("Ada Lovelace", "Ada Lovelace <ada@example.com>"),
        ("Lovelace, Ada", '"Lovelace, Ada" <ada@example.com>'),
        ('a" <bob@evil.example>, "b', '"a\\" <bob@evil.example>, \\"b" <ada@example.com>'),
        ("Zoë", "=?utf-8?b?Wm/Dqw==?= <ada@example.com>"),
    ],
)
def test_no_name_adds_another_address(name: str | None, header: str) -> None:
    assert mailbox("ada@example.com", name) == header
    assert len(getaddresses([header])) == 1


def test_an_encoded_word_that_somebody_wrote_as_a_name_is_not_decoded() -> None:
    header = mailbox("ada@example.com", "=?utf-8?q?=3Cbob=40evil=2Eexample=3E?=")

    assert "=?utf-8?q?" not in header
    assert len(getaddresses([header])) == 1


def test_long_names_become_encoded_words_of_at_most_75_characters() -> None:
    assert max(map(len, mailbox("ada@example.com", "名" * 200).split(" "))) <= 75
