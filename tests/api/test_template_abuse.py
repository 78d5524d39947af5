"""Templates that would take all the time or memory there is: refused at once, and nobody else notices."""

import psutil
import pytest

from api.faults import InvalidRequest
from api.rendering import TemplateParts, check_template, render
from api.strict_json import JsonObject

#: Lists that hold one list ten times over, twelve levels deep.
_LAUGHS = "{% set a0=[1,1,1,1,1,1,1,1,1,1] %}" + "".join(
    f"{{% set a{level + 1}=[{','.join([f'a{level}'] * 10)}] %}}" for level in range(12)
)
_ABUSES = {
    "endless loops": "{% for i in range(100000) %}{% for j in range(100000) %}a{% endfor %}{% endfor %}",
    "a long string": "{{ 'a' * 1000000000 }}",
    "doubling": "{% set x='aaaaaaaaaa' %}" + "{% set x = x ~ x %}" * 30 + "{{ x|length }}",
    "replacing": "{% set x='aaaaaaaaaa' %}" + "{% set x = x|replace('a', 'aaaaaaaaaa'*9) %}" * 9 + "{{ x|length }}",
    "padding": "{{ '%999999999s'|format('x') }}",
    "indenting": "{{ 'x\ny'|indent(999999999) }}",
    "indented JSON": "{{ {'a': 1}|tojson(indent=999999999) }}",
    "batches": "{{ [1, 2]|batch(999999999, 'x')|list|length }}",
    "slices": "{{ [1, 2]|slice(999999999, 'x')|list|length }}",
    "a long list": "{{ [1] * 100000000 }}",
    "comparing long lists": "{{ [1] * 100000000 == [1] * 100000000 }}",
    "searching a long list": "{{ 2 in [1] * 100000000 }}",
    "lists of lists, written": _LAUGHS + "{{ a12 }}",
    "lists of lists, printed": _LAUGHS + "{{ a12|pprint }}",
    "lists of lists, hashed": _LAUGHS + "{{ {a12: 1} }}",
    "a macro that calls itself": "{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}",
    "a loop that calls itself": "{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}",
    "huge powers": "{{ 9 ** 999999999 }}",
    "long chains of members": "{{ a" + ".b" * 60_000 + " }}",
    "long chains of filters": "{{ 1" + "|abs" * 50_000 + " }}",
    "long sums": "{{ 1" + "+1" * 100_000 + " }}",
    "many negations": "{{ " + "not " * 50_000 + "1 }}",
    "many branches": "{% if 0 %}" + "{% elif 0 %}" * 15_000 + "{% endif %}",
    "deep brackets": "{{ " + "(" * 100_000 + "1" + ")" * 100_000 + " }}",
    "deep blocks": "{% if 1 %}" * 10_000 + "{% endif %}" * 10_000,
}


def _text(source: str, context: JsonObject) -> str:
    return render(TemplateParts(subject="Hello", text=source, html=None, context_schema={}), context).text


def _cpu_seconds() -> float:
    """Return what the confined processes have used so far."""
    (keeper,) = (child for child in psutil.Process().children() if "api.template_engine:answer" in child.cmdline())
    ended = keeper.cpu_times()
    running = [worker.cpu_times() for worker in keeper.children()]
    return ended.children_user + ended.children_system + sum(times.user + times.system for times in running)


@pytest.mark.parametrize("source", _ABUSES.values(), ids=_ABUSES.keys())
def test_abuse_is_refused_at_once_and_hurts_nobody_else(source: str) -> None:
    _text("warm", {})
    before = _cpu_seconds()

    with pytest.raises(InvalidRequest) as refused:
        _text(source, {})

    # Not by the clock on the wall, as a busy machine may take any time.
    assert _cpu_seconds() - before < 0.2
    assert {fault.pointer for fault in refused.value.faults} == {"/context"}
    assert _text("{{ name }}", {"name": "Ada"}) == "Ada"


@pytest.mark.parametrize("source", _ABUSES.values(), ids=_ABUSES.keys())
def test_abuse_is_no_version_or_costs_nothing(source: str) -> None:
    faults = check_template("Hello", source, None, {})

    # What can't be done at all, such as a huge power, might be meant for another context.
    assert [fault.pointer for fault in faults] in ([], ["/text"])
