"""What the README has a newcomer paste."""

import asyncio
import itertools
import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.acceptance.conftest import Client

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


@pytest.fixture
def checkout(client: Client, tmp_path: Path) -> Path:
    """Give a folder that looks like a checkout in which `make dev` runs, as far as a caller sees it."""
    (tmp_path / ".fencepost").symlink_to(client.stack.directory)
    (tmp_path / ".venv").symlink_to(Path(sys.prefix))
    return tmp_path


async def paste(command: str, folder: Path) -> str:
    """Run what was pasted into a shell; give what it printed."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    shell = await asyncio.create_subprocess_shell(
        command, cwd=folder, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await shell.communicate()
    assert shell.returncode == 0, err.decode()
    return out.decode()


async def test_the_readmes_first_mail_is_one_message_by_curl_by_python_and_by_command(
    client: Client, checkout: Path
) -> None:
    """Without curl, which not every machine has: its arguments are read as a shell reads them."""
    (block,) = re.findall(r"```sh\n(KEY=.*?)```", README, re.DOTALL)
    (program,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    (command,) = re.findall(r"```sh\n(\.venv/bin/fencepost send .*?)```", README, re.DOTALL)
    find_key, _, curl = block.partition("\n")
    key = await paste(f'{find_key}; printf %s "$KEY"', checkout)
    words = [word.replace("$KEY", key) for word in shlex.split(curl)]
    assert words[:3] == ["curl", "-sS", "http://127.0.0.1:7480/v1/messages"]
    options = list(itertools.pairwise(words))
    headers = dict(word.split(": ", 1) for option, word in options if option == "-H")
    (content,) = (word for option, word in options if option == "-d")
    url = words[2].replace("http://127.0.0.1:7480", client.stack.describe()["api_url"])

    first = await client.http.post(url, headers=headers, content=content)
    again = await client.http.post(url, headers=headers, content=content)
    by_python = await paste(f"python -c {shlex.quote(program)}", checkout)
    by_command = await paste(command, checkout)

    assert first.status_code == 202
    assert again.status_code == 200
    assert again.headers["Idempotent-Replayed"] == "true"
    message_id = first.json()["id"]
    assert len([line for line in program.splitlines() if line]) == 5
    assert message_id in by_python
    assert "'idempotent_replay': True" in by_python
    assert "provider_accepted" in by_command
    submitted = [each for each in await client.submissions() if each["to"] == ["grace@example.com"]]
    assert [each["tags"]["fencepost_message"] for each in submitted] == [message_id]
