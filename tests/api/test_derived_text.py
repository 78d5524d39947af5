"""The text part that is derived from HTML: it says what the HTML shows, and is never empty."""

from contextlib import suppress

import pytest

from api.derived_text import text_of
from api.faults import FaultCode, InvalidRequest
from api.rendering import TemplateParts, check_template, render
from api.strict_json import JsonObject


def _render(html: str, context: JsonObject) -> tuple[str, str | None]:
    rendered = render(TemplateParts(subject="Hello", text=None, html=html, context_schema={}), context)
    return rendered.text, rendered.html


def _checked(html: str, text: str | None = None) -> list[tuple[str, str]]:
    return [(fault.pointer, fault.code) for fault in check_template("Hello", text, html, {})]


_MAIL = """<!DOCTYPE html>
<html>
  <head><meta charset="iso-8859-1"><title>Not shown</title><style>p { color: red }</style></head>
  <body>
    <div style="display: none !important">A preheader</div>
    <!--[if mso]><p>Outlook</p><![endif]-->
    <table align="center" width="600"><tr><td align="center" style="padding: 40px">
      <h1>Grüße, {{ name }}</h1>
      <p>Your order <b>17</b>
         is on its way.<br>Track it <a href="https://shop.example.com/t?a=1&amp;copy=2&section=3">here</a>.</p>
      <ul>{% for item in items %}<li>{{ item }}</li>{% endfor %}</ul>
      <table><tr><th>Item</th><th>Price</th></tr><tr><td>Pears</td><td align="right">1.50</td></tr></table>
    </td></tr></table>
    <script>alert(1)</script>
  </body>
</html>
"""


def test_a_mail_reads_as_its_html_looks() -> None:
    text, html = _render(_MAIL, {"name": "Ada", "items": ["Apples & pears", "<b>"]})

    assert text.splitlines() == [
        "Grüße, Ada",
        "",
        "Your order 17 is on its way.",
        "Track it here <https://shop.example.com/t?a=1&copy=2&section=3>.",
        "",
        "  * Apples & pears",
        "  * <b>",
        "Item   Price",
        "Pears  1.50",
    ]
    assert html is not None
    assert "<li>Apples &amp; pears</li><li>&lt;b&gt;</li>" in html


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<a href='https://a.example.com/x'>Click</a>", "Click <https://a.example.com/x>"),
        ("<a href=' https://a.example.com/\nx y '>Click</a>", "Click <https://a.example.com/x%20y>"),
        ("<a href='https://a.example.com/'>https://a.example.com</a>", "https://a.example.com"),
        ("<a href='https://a.example.com/'>a.example.com</a>", "a.example.com"),
        ("<a href='mailto:a@example.com'>Write</a> <a href='tel:+15550100'>call</a>", None),
        ("<a href='mailto:a@example.com'><b>a@example.com</b></a>", "a@example.com"),
        ("<a href='shop:open?id=1'>Open</a>", "Open <shop:open?id=1>"),
        ("<a href='https://a.example.com/x'><img src='x'></a>", "<https://a.example.com/x>"),
        ("<a href='https://a.example.com/x'><img src='x' alt='A &amp; B'></a>", "[A & B] <https://a.example.com/x>"),
        ("<a href='https://a.example.com/x'><b>Bold</b> move</a>", "Bold move <https://a.example.com/x>"),
        ("<a href='https://a.example.com/x'><div>Button</div></a>", "Button\n<https://a.example.com/x>"),
        ("<p hidden><a href='https://a.example.com/x'>x</a></p>y", "y"),
        *((f"<a href='{href}'>x</a>", "x") for href in ("", "#top", "/path", "path", "JavaScript:alert(1)", "data:,x")),
        ("<a>x</a> <a name='x'>y</a>", "x y"),
    ],
)
def test_a_link_that_can_be_followed_stands_beside_its_words(html: str, text: str | None) -> None:
    assert text_of(html) == (text or "Write <mailto:a@example.com> call <tel:+15550100>")


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("", ""),
        (" \n", ""),
        ("<!-- a -->", ""),
        ("plain", "plain"),
        ("<?xml version='1.0' encoding='latin1'?><p>é</p>", "é"),
        ("&amp;lt;b&amp;gt; &amp;amp; &amp;copy; &copy;", "&lt;b&gt; &amp; &copy; ©"),
        ("a<p>b</p>&amp;copy;", "a\n\nb\n\n&copy;"),
        ("a<br><br><br><br>b<p></p><p></p>c", "a\n\nb\n\nc"),
        ("fi<span>r</span>st   \n  <i>and</i>\tlast", "first and last"),
        ("<pre>a  b\n  c</pre>", "a  b\n  c"),
        ("<p style='white-space: PRE-WRAP'>a  b\n  c</p>", "a  b\n  c"),
        ("<p style='margin-top: 99999em; padding-left: 9999em'>a</p>b", "a\n\nb"),
        ("<ol><li>a<li>b<ul><li>c</ul></ol>", " 1. a\n 2. b\n      + c"),
        ("<blockquote>a</blockquote><q>b</q>", 'a\n"b"'),
        ("<p style='display:none'>a</p><p style='nonsense;:;display'>b</p>", "b"),
        ("<b><i>a</b></i></p> b", "a b"),
        (
            "<table><tr><td><table><tr><td>&amp;copy;<td>&amp;amp;<tr><td>x<td>y</table></table>",
            "&copy;  &amp;\nx       y",
        ),
    ],
)
def test_what_is_shown_is_told(html: str, text: str) -> None:
    assert text_of(html) == text


def test_a_version_s_own_text_is_taken_as_it_is() -> None:
    rendered = render(TemplateParts(subject="Hello", text="Mine\n", html="<p>Theirs</p>", context_schema={}), {})

    assert (rendered.text, rendered.html) == ("Mine", "<p>Theirs</p>")


@pytest.mark.parametrize(
    "html",
    [
        "<p></p>",
        "<img src='a.png'>",
        "<img src='{{ banner }}'>",
        "{% if a %}<img src='{{ banner }}'>{% else %}<br>{% endif %}",
        "{# words #}<p style='display: none'>{{ name }}</p>",
        "<title>{{ name }}</title>&nbsp;&#8203;",
    ],
)
def test_html_that_never_shows_any_text_is_no_version(html: str) -> None:
    assert _checked(html) == [("/html", FaultCode.REQUIRED)]
    assert _checked(html, "Words") == []


@pytest.mark.parametrize(
    "html",
    [
        "<p>{{ name }}</p>",
        "{% if name %}a{% endif %}",
        "{% raw %}{{ }}{% endraw %}",
        "{% if name %}<style>{% endif %}a",
        "<img alt='{{ name }}'>",
        "<a href='{{ url }}'><img src='{{ banner }}'></a>",
        "{{ name.first|upper }}{{ 1 + name }}",
    ],
)
def test_html_that_may_show_text_is_a_version(html: str) -> None:
    assert _checked(html) == []


def test_html_that_shows_no_text_this_time_is_refused() -> None:
    html = "{% if name %}{{ name }}{% endif %}<img src='x'>"

    assert _render(html, {"name": "Ada"})[0] == "Ada"
    with pytest.raises(InvalidRequest) as refused:
        _render(html, {"name": ""})
    assert [(fault.pointer, fault.code) for fault in refused.value.faults] == [("/context", FaultCode.TEMPLATE_FAILED)]


@pytest.mark.parametrize("tags", [("<div>", "</div>"), ("<b>", ""), ("<table><tr><td>", "</td></tr></table>")])
def test_deep_html_is_told_or_refused_and_never_cut_short(tags: tuple[str, str]) -> None:
    def nested(levels: int) -> str:
        return tags[0] * levels + "the end" + tags[1] * levels

    assert _render(nested(200), {})[0].strip() == "the end"
    assert [pointer for pointer, _ in _checked(nested(5000))] == ["/html"]
    assert _checked(nested(5000), "Words") == []
    for levels in (300, 900, 1000, 3000):
        with suppress(InvalidRequest):
            assert "the end" in _render(nested(levels), {})[0]


def test_a_refusal_to_derive_quotes_nothing() -> None:
    with pytest.raises(InvalidRequest) as refused:
        _render("<div>" * 5000 + "canary", {})

    assert refused.value.__context__ is None
    assert "canary" not in repr(refused.value.faults)


def test_one_message_leaves_nothing_to_the_next() -> None:
    first = _render("<ul><li>canary<pre>a", {})[0]

    assert "canary" in first
    assert _render("<p>b</p>", {})[0] == "b"
    assert _render("<ul><li>canary<pre>a", {})[0] == first


def test_a_mail_of_usual_size_is_no_abuse() -> None:
    paragraph = "<p style='margin: 0'>Some <b>words</b> of <a href='https://example.com/{{ i }}'>a mail</a>.</p>"
    html = "{% for i in range(300) %}" + paragraph + "{% endfor %}"

    assert _render(html, {})[0].count("<https://example.com/") == 300
