"""The guards of templates: which version there is, what may be in it, and what it may take."""

from typing import Final

from tests.mutation.mutant import Mutant, Source

_DB: Final = Source("db/templates.py", "tests/db/test_templates.py")
_API: Final = Source("api/templates.py", "tests/api/test_templates.py")
_ENGINE: Final = Source("api/template_engine.py", "tests/api/test_rendering.py")
_RENDERING: Final = Source("api/rendering.py", "tests/api/test_rendering.py")
_DERIVED: Final = Source("api/derived_text.py", "tests/api/test_derived_text.py")
_CONFINED: Final = Source("api/confinement.py", "tests/api/test_confinement.py")

_OWN: Final = "test_a_tenant_finds_only_its_own"
_DIFFERS: Final = "test_what_differs_in_one_thing_is_a_version"
_MALFORMED: Final = "test_a_malformed_key_is_told_to_who_publishes_and_is_no_template_to_who_reads"
_SAFE: Final = "test_safe_is_not_there_by_any_other_way"
_ONE_LINE: Final = "test_a_subject_is_one_line"
_SHOWN: Final = "test_what_is_shown_is_told"
_LINES: Final = (
    "tests/api/test_template_abuse.py::test_text_that_takes_too_much_to_derive_is_refused_when_published_and_when_sent"
    "[preformatted lines far inside]"
)

_COMPARED: Final = "        for name in _CONTENT\n    )\n)"

_PUBLISHING: Final = (
    _DB.without(
        "publish: lock",
        "                await connection.execute(LOCK, this)\n",
        "of two who publish at once, one fails",
        "test_of_many_who_publish_at_once_each_gets_a_number_of_its_own",
    ),
    *(
        _DB.changed(
            f"publish: compare {name}",
            _COMPARED,
            _COMPARED.replace("_CONTENT", f'_CONTENT\n        if name != "{name}"'),
            f"a version that differs in its {name} only is not published",
            _DIFFERS,
        )
        for name in ("subject", "text", "html", "purpose", "context_schema")
    ),
    _DB.changed(
        "publish: compare null",
        "template_versions.c[name].is_not_distinct_from(",
        "template_versions.c[name].__eq__(",
        "a version without text or HTML is published once more each time",
        "test_the_parts_that_are_absent_are_compared_too",
    ),
    _DB.changed(
        "publish: newest",
        ".order_by(template_versions.c.version.desc())",
        ".order_by(_IDENTICAL.desc(), template_versions.c.version.desc())",
        "an older version that comes again is taken for the newest",
        _DIFFERS,
    ),
    _API.without(
        "publish: active",
        "    caller.require_active()\n",
        "a disabled tenant publishes",
        "test_a_disabled_tenant_reads_and_previews_and_publishes_nothing",
    ),
    _API.without(
        "publish: key's form", '    fields.text(key, "/key", KEY)\n', "a template may have any key", _MALFORMED
    ),
)

_LOOKED_UP: Final = (
    _DB.changed(
        "template: tenant",
        "(template_versions.c.tenant_id == _TENANT, template_versions.c.key == _KEY)",
        "(template_versions.c.key == _KEY,)",
        "a template is looked up among all tenants",
        _OWN,
    ),
    _DB.changed(
        "templates: room",
        ".where(template_versions.c.tenant_id == _TENANT, template_versions.c.key >",
        ".where(template_versions.c.key >",
        "other tenants' templates take up a page's room",
        "test_a_list_has_each_template_once_by_key_with_its_newest_version",
    ),
    _DB.without(
        "templates: tenant",
        "    .where(template_versions.c.tenant_id == _TENANT)\n",
        "other tenants' templates are listed",
        _OWN,
    ),
    _API.without(
        "template: key's form",
        "not re.fullmatch(KEY, key) or ",
        "a key that Postgres can't hold is an error of ours",
        f"{_MALFORMED}[%00]",
    ),
    _API.without(
        "template: largest number",
        " or int(number) > MAX_VERSION",
        "a number that Postgres can't hold is an error of ours",
        "test_a_version_that_is_none_is_not_found[2147483648]",
    ),
)

_CONTENT: Final = (
    _ENGINE.changed(
        "part: undeclared variables",
        "unknown = variables - properties.keys() if isinstance(properties, dict) else set()",
        "unknown: set[str] = set()",
        "a misspelled variable is found out by the first message",
        "test_a_variable_that_the_schema_does_not_name_is_no_version",
    ),
    _ENGINE.changed(
        "part: subject's lines",
        'if name == "subject" and not _is_one_line(source.rstrip("\\r\\n")):',
        "if False:",
        "a version is published whose subject no message can have",
        _ONE_LINE,
    ),
    _ENGINE.changed(
        "rendered: subject's lines",
        'if not _is_one_line(rendered["subject"]):',
        "if False:",
        "a context writes header lines",
        _ONE_LINE,
    ),
    _ENGINE.changed(
        "part: forbidden",
        "if _FORBIDDEN.search(source):",
        "if False:",
        "a template switches the escaping off",
        "test_a_template_that_can_never_work_is_no_version",
    ),
    _ENGINE.without(
        "environment: safe",
        '    environment.remove_filter("safe")\n',
        "a template names the filter in a way that is not looked for",
        _SAFE,
    ),
    _ENGINE.changed(
        "environment: escaping",
        'lambda name: name == "html"',
        "lambda _: False",
        "a context's markup gets into the mail",
        "test_only_the_html_part_is_escaped",
    ),
    _ENGINE.changed(
        "environment: Python's methods",
        "1.9 GB.\n        pycompat=False,",
        "1.9 GB.\n        pycompat=True,",
        "a template calls what has no bound",
        "test_nothing_of_python_can_be_called",
    ),
    _ENGINE.changed(
        "environment: lenient filters",
        'if undefined == "strict":',
        "if False:",
        "a filter writes nothing for a value that isn't there",
        "test_a_value_that_is_not_there_is_refused",
    ),
    _ENGINE.without(
        "render: schema",
        '    refuse(context_faults(schema, context, "/context"))\n',
        "a context that is against the schema is rendered",
        "tests/api/test_templates.py::test_a_context_that_does_not_fit_is_refused_with_a_pointer",
    ),
    _ENGINE.changed(
        "rendered: blank text",
        'if _is_blank(rendered["text"]):',
        "if False:",
        "a message without any text goes out",
        "test_a_message_whose_text_shows_nothing_is_refused",
    ),
    _ENGINE.changed(
        "check: text to derive",
        "if _is_blank(_derive(bare)) and _is_blank(_derive(full)):",
        "if False:",
        "a version is published of which no message can be made",
        "tests/api/test_derived_text.py::test_html_that_never_shows_any_text_is_no_version",
    ),
    _DERIVED.without(
        "derive: references",
        "block.unescape = str\n",
        "`&copy=2` in an address becomes a sign",
        _SHOWN,
    ),
    _DERIVED.without(
        "derive: deep HTML",
        ", huge_tree=True",
        "what is nested deep is left out, silently",
        "test_deep_html_is_told_or_refused_and_never_cut_short",
    ),
    _DERIVED.changed(
        "derive: body's style",
        'copy(STRICT_CSS_PROFILE["body"])',
        'STRICT_CSS_PROFILE["body"]',
        "all messages share what inscriptis writes into",
        "test_one_message_leaves_nothing_to_the_next",
        stands_in="what inscriptis writes there, it writes anew for each message",
    ),
)

_BOUNDED: Final = (
    _RENDERING.changed(
        "engine: one budget",
        'max(self._seconds_left - answer["cpu_seconds"], 0.001)',
        "max(self._seconds_left, 0.001)",
        "each part may take what all may take together",
        "tests/api/test_template_abuse.py::test_parts_that_take_less_than_is_too_much_may_take_too_much_together",
    ),
    _RENDERING.without(
        "engine: nothing left",
        "            self._seconds_left = 0\n",
        "after a part that takes too much, each other one may",
        "test_what_takes_too_much_is_told_last_and_spares_what_follows",
        "tests/api/test_template_abuse.py::test_a_version_that_takes_too_much_in_every_part_takes_no_more",
    ),
    _RENDERING.changed(
        "render: context's size",
        "if len(canonical) > MAX_CONTEXT_BYTES:",
        "if False:",
        "a context has any size",
        "test_a_context_too_large_is_refused",
    ),
    _CONFINED.changed(
        "worker: CPU time",
        "signal.setitimer(signal.ITIMER_PROF, *_CPU_SECONDS.unpack_from(frame))",
        "signal.setitimer(signal.ITIMER_PROF, 1)",
        "a call takes another CPU time than it was given",
        "test_a_loop_ends_when_its_cpu_time_is_used_up",
    ),
    _CONFINED.without(
        "worker: memory",
        "            _bound_memory()\n",
        "a call takes all the memory there is",
        _LINES,
    ),
    _CONFINED.changed(
        "worker: memory, its size",
        "MEMORY_BYTES: Final = 40 * 10**6",
        "MEMORY_BYTES: Final = 400 * 10**6",
        "a call takes ten times the memory that it may",
        _LINES,
    ),
    _CONFINED.changed(
        "keeper: environment",
        "env={},",
        "env=None,",
        "templates run in a process that holds our secrets",
        "test_the_child_knows_nothing_of_our_environment",
    ),
    _CONFINED.changed(
        "keeper: killed by somebody",
        "for _ in range(2):",
        "for _ in range(1):",
        "a call fails because somebody killed its process",
        "test_a_child_that_somebody_killed_costs_no_call[keeper]",
    ),
)

GUARDS: Final[tuple[Mutant, ...]] = (*_PUBLISHING, *_LOOKED_UP, *_CONTENT, *_BOUNDED)
