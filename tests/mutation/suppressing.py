"""The guards of suppressions: whose they are, which of them hold, and what a list may do."""

from typing import Final

from tests.mutation.mutant import Mutant, Source

_STORE: Final = Source("db/suppressions.py", "tests/db/test_suppressions.py")
_API: Final = Source("api/suppressions.py", "tests/api/test_suppressions.py")
_LISTS: Final = Source("api/suppression_lists.py", "tests/api/test_suppression_lists.py")
_CSV: Final = Source("api/suppression_csv.py", "tests/api/test_suppression_lists.py")
_RECORDS: Final = Source("api/csv_records.py", "tests/api/test_suppression_lists.py")
_FILES: Final = Source("api/commands/suppression_files.py", "tests/commands/test_suppressions.py")

_ORDER: Final = "test_lists_hold_what_is_active_of_one_tenant_in_the_order_of_ids"
_FIRST: Final = "test_the_first_reason_of_a_removal_stays"
_DISABLED: Final = "test_a_disabled_tenant_reads_its_suppressions_and_changes_none"
_REASON: Final = "test_a_removal_without_one_good_reason_is_refused"
_WHOLE: Final = "test_what_is_no_list_is_refused_whole"
_CONFLICT: Final = """    .on_conflict_do_nothing(
        index_elements=[suppressions.c.tenant_id, suppressions.c.address_hash, suppressions.c.scope],
        index_where=_ACTIVE,
    )
"""
_BEFORE: Final = ".where(suppressions.c.tenant_id == _TENANT, _ACTIVE, suppressions.c.id <"
_AFTER: Final = ".where(suppressions.c.tenant_id == _TENANT, _ACTIVE, suppressions.c.id >"
_LOOK_UP: Final = """ACTIVE: Final = sa.select(*_COLUMNS).where(
    suppressions.c.tenant_id == _TENANT,
    suppressions.c.address_hash == _HASH,
    suppressions.c.scope == sa.bindparam("this_scope", type_=sa.Text),
    _ACTIVE,
"""

_STORED: Final = (
    _STORE.changed(
        "suppression: tenant",
        "(suppressions.c.tenant_id == _TENANT, suppressions.c.id ==",
        "(suppressions.c.id ==",
        "a suppression is found and removed among all tenants'",
        "test_nothing_is_removed_or_found_for_somebody_else",
    ),
    _STORE.without(
        "add suppression: at once",
        _CONFLICT,
        "of two who suppress one address, one fails",
        "test_a_suppression_is_added_once_for_its_tenant_address_and_scope",
    ),
    _STORE.lacking(
        "present suppression: scope",
        _LOOK_UP,
        '    suppressions.c.scope == sa.bindparam("this_scope", type_=sa.Text),\n',
        "what suppresses in another scope is given",
        "tests/api/test_suppressions.py::test_an_address_is_given_as_it_is_suppressed_in_the_scope_that_was_asked_for",
    ),
    _STORE.lacking(
        "present suppression: active",
        _LOOK_UP,
        "    _ACTIVE,\n",
        "what was removed is given as what suppresses",
        "test_what_is_given_as_present_is_not_one_that_was_removed",
    ),
    _STORE.changed(
        "suppressions: tenant",
        _BEFORE,
        _BEFORE.replace("suppressions.c.tenant_id == _TENANT, ", ""),
        "all tenants' suppressions are listed",
        _ORDER,
    ),
    _STORE.changed(
        "suppressions: active",
        _BEFORE,
        _BEFORE.replace("_ACTIVE, ", ""),
        "suppressions that were removed are listed",
        _ORDER,
    ),
    _STORE.changed(
        "export: tenant",
        _AFTER,
        _AFTER.replace("suppressions.c.tenant_id == _TENANT, ", ""),
        "all tenants' suppressions are exported",
        _ORDER,
    ),
    _STORE.changed(
        "export: active",
        _AFTER,
        _AFTER.replace("_ACTIVE, ", ""),
        "suppressions that were removed are exported, and come back with an import",
        _ORDER,
    ),
    _STORE.changed(
        "suppressions: address",
        "PAGE.where(suppressions.c.address_hash == _HASH)",
        "PAGE.where(_HASH == _HASH)",
        "a look-up of one address gives all",
        _ORDER,
    ),
    _STORE.changed(
        "remove suppression: once",
        ".where(*_THIS, _ACTIVE)",
        ".where(*_THIS)",
        "a second removal writes over the reason of the first",
        _FIRST,
    ),
    _STORE.changed(
        "import: one order",
        "sorted(new, key=lambda each: (each.address_hash, each.scope))",
        "list(new)",
        "two imports of the same addresses may wait for each other in a ring",
        "test_addresses_are_added_in_one_order_whatever_the_list_has",
    ),
)

_CALLS: Final = (
    _API.changed(
        "add suppression: active tenant",
        "    caller.require_active()\n    suppression, added",
        "    suppression, added",
        "a disabled tenant suppresses addresses",
        _DISABLED,
    ),
    _API.changed(
        "remove suppression: active tenant",
        "    caller.require_active()\n    if not await store_of",
        "    if not await store_of",
        "a disabled tenant removes suppressions",
        _DISABLED,
    ),
    _API.changed(
        "remove suppression: one reason",
        "if len(reasons) > 1:",
        "if False:",
        "of two reasons one is lost",
        _REASON,
    ),
    _API.changed(
        "add suppression: by hand",
        'if body.get("reason") not in (None, SuppressionReason.MANUAL):',
        "if False:",
        "a tenant says what a provider reported, and is told that it did",
        "test_what_is_no_suppression_is_refused",
    ),
    _API.changed(
        "suppression: words of calls",
        "(?!export|import)[^/]+",
        "[^/]+",
        "another method of export is taken for a call about an id",
        "tests/api/test_suppression_lists.py::test_the_words_export_and_import_are_no_ids",
    ),
    _LISTS.without(
        "import: active tenant",
        "    caller.require_active()\n",
        "a disabled tenant imports suppressions",
        "test_a_disabled_tenant_takes_its_list_out_and_brings_none_in",
    ),
)

_READ: Final = (
    _CSV.changed(
        "import: cells",
        "if len(record.cells) != len(header):",
        "if len(record.cells) < len(header):",
        "a line whose cells are shifted is taken",
        "test_faulty_lines_are_named_and_the_others_taken",
    ),
    _CSV.changed(
        "import: header",
        'if names.count("address") != 1 or names.count("scope") > 1:',
        'if names.count("address") < 1:',
        "of two columns of one name, either is taken",
        _WHOLE,
    ),
    _RECORDS.changed(
        "CSV: strict",
        ", strict=True)",
        ")",
        "a quote too many swallows the lines behind it",
        _WHOLE,
    ),
    _RECORDS.changed(
        "CSV: U+0000",
        'if any("\\0" in cell for cell in cells):',
        "if False:",
        "a list with U+0000 is taken, where nothing looks at the cell",
        _WHOLE,
    ),
    _FILES.changed(
        "file: whole",
        'os.fdopen(descriptor, "w", encoding="utf-8", newline="") as out:',
        'target.open("w", encoding="utf-8", newline="") as out, os.fdopen(descriptor):',
        "an export that breaks off leaves half a file",
        "test_a_list_that_breaks_off_leaves_the_old_file",
    ),
)

GUARDS: Final[tuple[Mutant, ...]] = (*_STORED, *_CALLS, *_READ)
