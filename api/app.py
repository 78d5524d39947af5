"""The API process: settings, engine, Temporal client and routes, composed into one application."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Literal

import uvicorn
import uvloop
from fastapi import FastAPI
from fastapi_offline import FastAPIOffline
from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict
from temporalio.client import Client

from api import (
    health,
    messages,
    openapi,
    operators,
    problems,
    provider_events,
    providers,
    senders,
    subscriptions,
    suppression_lists,
    suppressions,
    templates,
    tenant_keys,
    tenants,
)
from api.auth import Authenticator
from api.certificates import Certificates
from api.event_intake import EventIntake
from api.intake import Intake
from api.pages import Cursors
from api.requests import RequestLog
from api.sns import EventSettings, Verifier
from api.starter import Starter
from db import crash_points
from db.credentials import CredentialStore
from db.engine import DatabaseSettings, Engine, UnavailableError, create_engine
from db.event_subscriptions import SubscriptionStore
from db.events import EventStore
from db.fit import Fit, SchemaBehindError
from db.intake import IntakeStore
from db.providers import ProviderStore
from db.rates import RateLimits
from db.reading import MessageReader
from db.records import MessageRef
from db.resolutions import ResolutionStore
from db.senders import SenderStore
from db.suppressions import SuppressionStore
from db.templates import TemplateStore
from db.tenant_keys import TenantKeyStore
from db.tenants import TenantStore
from workflows import logs
from workflows.temporal import connect, start_message

_DESCRIPTION = """
Fencepost takes a transactional mail and gets it to the provider at most once by itself.
Where nobody can know whether the provider took a message, it is `ambiguous`, and only evidence or a person ends that.
`provider_accepted` is not delivery.
"""


class ApiSettings(BaseSettings):
    """The API process."""

    model_config = SettingsConfigDict(env_prefix="FENCEPOST_", hide_input_in_errors=True)

    api_host: str = Field(default="127.0.0.1", description="Address that the API listens on.")
    api_port: int = Field(default=7480, description="Port that the API listens on.")
    environment: Literal["live", "test"] = Field(default="live", description="The word in this deployment's API keys.")
    key_pepper: SecretStr = Field(
        min_length=32, description="Secret, 32 characters or more: hashes API keys. Changing it revokes every key."
    )
    address_key: SecretStr = Field(
        min_length=32, description="Secret, 32 characters or more: hashes addresses for look-ups. Never change it."
    )
    sns_endpoint_url: str | None = Field(
        default=None, description="Another endpoint of SNS than AWS's, where subscriptions are confirmed; for tests."
    )
    rate_per_second: float | None = Field(
        default=None, gt=0, description="Writing calls that each tenant may make in the long run. None: no limit."
    )
    rate_burst: int = Field(default=100, ge=1, description="Writing calls that each tenant may make at once.")


def create_app(settings: ApiSettings, engine: Engine, temporal: Client, verifier: Verifier) -> FastAPI:
    """Build the application on an engine, a client that may be lazy, and what tells SNS's signatures."""

    async def start(message: MessageRef) -> None:
        await start_message(temporal, message)

    starter = Starter(start)
    store = IntakeStore(engine)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        starter.open()
        yield
        await starter.close()
        await engine.dispose()

    app = FastAPIOffline(
        title="Fencepost",
        version="1",
        description=_DESCRIPTION,
        lifespan=lifespan,
        redoc_url=None,
        # A redirect would repeat the Host that somebody sent; what isn't there is 404.
        redirect_slashes=False,
    )
    pepper = settings.key_pepper.get_secret_value().encode()
    app.state.tenants = TenantStore(engine)
    app.state.tenant_keys = TenantKeyStore(engine)
    app.state.mint = tenant_keys.Mint(environment=settings.environment, pepper=pepper)
    app.state.senders = SenderStore(engine)
    app.state.suppressions = SuppressionStore(engine)
    app.state.address_key = settings.address_key.get_secret_value().encode()
    app.state.templates = TemplateStore(engine)
    app.state.authenticator = Authenticator(
        CredentialStore(engine), _rates(settings, engine), pepper=pepper, environment=settings.environment
    )
    app.state.cursors = Cursors(pepper)
    app.state.intake = Intake(store, starter, address_key=settings.address_key.get_secret_value().encode())
    app.state.reader = MessageReader(engine)
    app.state.resolutions = ResolutionStore(engine)
    app.state.providers = ProviderStore(engine)
    app.state.subscriptions = SubscriptionStore(engine)
    app.state.sns_endpoint_url = settings.sns_endpoint_url
    app.state.event_intake = EventIntake(
        EventStore(engine),
        app.state.subscriptions,
        verifier,
        address_key=settings.address_key.get_secret_value().encode(),
    )
    app.state.starter = starter
    app.state.temporal = temporal
    problems.install(app)
    app.include_router(messages.router)
    app.include_router(senders.router)
    app.include_router(suppressions.router)
    app.include_router(suppression_lists.router)
    app.include_router(templates.router)
    app.include_router(tenants.router)
    app.include_router(tenant_keys.router)
    app.include_router(operators.router)
    app.include_router(providers.router)
    app.include_router(subscriptions.router)
    app.include_router(provider_events.router)
    app.include_router(health.router)
    app.add_middleware(RequestLog)
    openapi.describe(app)
    return app


def _rates(settings: ApiSettings, engine: Engine) -> RateLimits | None:
    if settings.rate_per_second is None:
        return None
    return RateLimits(engine, per_second=settings.rate_per_second, burst=settings.rate_burst)


async def serve() -> None:
    """Run the API until SIGTERM or SIGINT; requests under way are answered first.

    Raises SchemaBehindError. It starts without Postgres, and says so to whoever asks until Postgres is there.
    """
    crash_points.arm()
    settings, events = ApiSettings(), EventSettings()
    engine = create_engine(DatabaseSettings(), application="fencepost-api")
    with suppress(UnavailableError):
        if await MessageReader(engine).schema_fit() is Fit.BEHIND:
            raise SchemaBehindError
    certificates = Certificates()
    app = create_app(settings, engine, await connect(lazy=True), Verifier(events, certificates))
    config = uvicorn.Config(
        app,
        host=settings.api_host,
        port=settings.api_port,
        log_config=None,
        access_log=False,
        server_header=False,
        # httptools takes a trailer for a header, and bounds no header's size; and nothing here is a WebSocket.
        http="h11",
        ws="none",
        timeout_graceful_shutdown=10,
        h11_max_incomplete_event_size=64 * 1024,
    )
    await uvicorn.Server(config).serve()
    await certificates.aclose()


def main() -> None:
    """Run the API process."""
    logs.set_up("api")
    uvloop.run(serve())
