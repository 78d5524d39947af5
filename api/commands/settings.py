"""Where the commands find the API, and with which keys they ask it."""

import re
from typing import Final, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

#: What a header can hold; whether anybody has such a key is for the API to say.
_KEY: Final = re.compile("[!-~]+")


class ClientSettings(BaseSettings):
    """What the commands that talk to the API need."""

    model_config = SettingsConfigDict(env_prefix="FENCEPOST_", hide_input_in_errors=True)

    api_url: str = Field(default="http://127.0.0.1:7480", description="Where the commands find the API.")
    api_key: SecretStr | None = Field(
        default=None, description="A tenant's API key, for the commands that talk to the API."
    )
    operator_key: SecretStr | None = Field(
        default=None,
        description="An operator's API key, for `tenant`, `key`, `ambiguous`, `provider` and `events confirm`;"
        " without it, FENCEPOST_API_KEY is used.",
    )

    @field_validator("api_url")
    @classmethod
    def _is_an_address(cls, url: str) -> str:
        # A user and password would stand in every message about this address.
        if not re.fullmatch(r"https?://[^\s@?#]+", url) or not _has_host(url):
            raise ValueError("it has to look like http://127.0.0.1:7480")
        return url.rstrip("/")

    @field_validator("api_key", "operator_key")
    @classmethod
    def _fits_a_header(cls, key: SecretStr | None) -> SecretStr | None:
        if key is None:
            return None
        text = key.get_secret_value().strip()
        if text and not _KEY.fullmatch(text):
            raise ValueError("it has to look like fp_live_...")
        return SecretStr(text) if text else None


class KeyMakingSettings(BaseSettings):
    """What makes a key; the API process has the same two among its own settings."""

    model_config = SettingsConfigDict(env_prefix="FENCEPOST_", hide_input_in_errors=True)

    environment: Literal["live", "test"] = "live"
    key_pepper: SecretStr = Field(min_length=32)


def _has_host(url: str) -> bool:
    try:
        split = urlsplit(url)
        return bool(split.hostname) and (split.port is None or split.port > 0)
    except ValueError:
        return False
