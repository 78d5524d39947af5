"""Template versions: publishing the next one, and reading them. A version never changes."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from db.engine import outages
from db.ids import TenantId
from db.intake import TemplateVersion
from db.schema import template_versions
from db.transaction import connected


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedVersion:
    """A version, with its number."""

    key: str
    version: int
    content: TemplateVersion
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestVersion:
    """A template in a list: its newest version, without the content."""

    key: str
    version: int
    purpose: str
    created_at: datetime


_TENANT: Final = sa.bindparam("this_tenant", type_=sa.Text)
_KEY: Final = sa.bindparam("this_key", type_=sa.Text)
_THIS: Final = (template_versions.c.tenant_id == _TENANT, template_versions.c.key == _KEY)
_COLUMNS: Final = tuple(column for column in template_versions.c if column is not template_versions.c.tenant_id)
_CONTENT: Final = ("subject", "text", "html", "purpose", "context_schema")

LOCK: Final = sa.select(
    sa.func.pg_advisory_xact_lock(sa.func.hashtextextended(sa.literal("template ") + _TENANT + "/" + _KEY, 0))
)
"""Take the template until the transaction ends; it need not have a row yet. Two that share a hash only wait."""

#: Postgres compares: Python takes 1 and true for equal, and JSON Schema doesn't.
_IDENTICAL: Final = sa.and_(
    *(
        template_versions.c[name].is_not_distinct_from(
            sa.bindparam(f"new_{name}", type_=template_versions.c[name].type)
        )
        for name in _CONTENT
    )
).label("identical")

NEWEST: Final = (
    sa.select(*_COLUMNS).add_columns(_IDENTICAL).where(*_THIS).order_by(template_versions.c.version.desc()).limit(1)
)

PUBLISH: Final = sa.insert(template_versions).returning(*_COLUMNS)

VERSION: Final = sa.select(*_COLUMNS).where(
    *_THIS, template_versions.c.version == sa.bindparam("this_version", type_=sa.Integer)
)

_NUMBERS: Final = (
    sa.select(template_versions.c.key, sa.func.max(template_versions.c.version).label("version"))
    .where(template_versions.c.tenant_id == _TENANT, template_versions.c.key > sa.bindparam("after", type_=sa.Text))
    .group_by(template_versions.c.key)
    .order_by(template_versions.c.key)
    .limit(sa.bindparam("at_most", type_=sa.Integer))
    .subquery()
)

PAGE: Final = (
    sa.select(
        template_versions.c.key,
        template_versions.c.version,
        template_versions.c.purpose,
        template_versions.c.created_at,
    )
    .join(
        _NUMBERS,
        sa.and_(template_versions.c.key == _NUMBERS.c.key, template_versions.c.version == _NUMBERS.c.version),
    )
    .where(template_versions.c.tenant_id == _TENANT)
    .order_by(template_versions.c.key)
)


class TemplateStore:
    """Reads template versions and adds to them. Raises UnavailableError for any trouble with Postgres."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def publish(self, tenant_id: TenantId, key: str, content: TemplateVersion) -> tuple[PublishedVersion, bool]:
        """Add the next version: give it and True, or the newest one and False where that is identical.

        UnavailableError leaves open whether it was added; publishing the same again finds out.
        """
        this = {"this_tenant": tenant_id, "this_key": key}
        values = {name: getattr(content, name) for name in _CONTENT}
        with outages():
            async with self._engine.begin() as connection:
                await connection.execute(LOCK, this)
                offered = {f"new_{name}": value for name, value in values.items()}
                newest = (await connection.execute(NEWEST, {**this, **offered})).one_or_none()
                if newest is not None and newest.identical:
                    return _published(newest), False
                number = 1 if newest is None else newest.version + 1
                row = {"tenant_id": tenant_id, "key": key, "version": number, **values}
                return _published((await connection.execute(PUBLISH, row)).one()), True

    async def version(self, tenant_id: TenantId, key: str, version: int) -> PublishedVersion | None:
        """Find a version."""
        values = {"this_tenant": tenant_id, "this_key": key, "this_version": version}
        async with connected(self._engine) as connection:
            row = (await connection.execute(VERSION, values)).one_or_none()
        return None if row is None else _published(row)

    async def page(self, tenant_id: TenantId, *, after: str, at_most: int) -> list[NewestVersion]:
        """List a tenant's templates by key, from after a key (empty: from the first)."""
        async with connected(self._engine) as connection:
            rows = await connection.execute(PAGE, {"this_tenant": tenant_id, "after": after, "at_most": at_most})
        return [NewestVersion(**row._asdict()) for row in rows]


def _published(row: sa.Row[Any]) -> PublishedVersion:
    return PublishedVersion(
        key=row.key,
        version=row.version,
        content=TemplateVersion(**{name: getattr(row, name) for name in _CONTENT}),
        created_at=row.created_at,
    )
