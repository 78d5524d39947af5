"""What the README has a newcomer paste."""

import asyncio
import itertools
import re
import shlex
import sys
from pathlib import Path

from tests.acceptance.conftest import Client

README = Path(__file__).parents[2] / "README.md"


async def test_the_readmes_first_request_works_as_pasted(client: Client, tmp_path: Path) -> None:
    """Without curl, which not every machine has: its arguments are read as a shell reads them."""
    (block,) = re.findall(r"```sh\n(KEY=.*?)```", README.read_text(), re.DOTALL)
    find_key, _, curl = block.partition("\n")
    (tmp_path / ".fencepost").symlink_to(client.stack.directory)
    script = f'{find_key.replace("python3", sys.executable)}; printf %s "$KEY"'
    shell = await asyncio.create_subprocess_shell(script, cwd=tmp_path, stdout=asyncio.subprocess.PIPE)
    key, _ = await shell.communicate()
    words = [word.replace("$KEY", key.decode()) for word in shlex.split(curl)]
    assert words[:3] == ["curl", "-sS", "http://127.0.0.1:7480/v1/messages"]
    options = list(itertools.pairwise(words))
    headers = dict(word.split(": ", 1) for option, word in options if option == "-H")
    (content,) = (word for option, word in options if option == "-d")

    url = words[2].replace("http://127.0.0.1:7480", client.stack.describe()["api_url"])
    first = await client.http.post(url, headers=headers, content=content)
    again = await client.http.post(url, headers=headers, content=content)

    assert first.status_code == 202
    assert again.status_code == 200
    assert again.headers["Idempotent-Replayed"] == "true"
