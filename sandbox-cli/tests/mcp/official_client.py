"""Uses `sandbox mcp` with the official Python client: over standard input and output, and HTTP.

Usage: official_client.py PROGRAM. Ends with an error if the server answers otherwise than expected.
"""

import asyncio
import re
import subprocess
import sys

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

PROGRAM = sys.argv[1]


async def use(client):
    tools = await client.list_tools()
    assert "run_code" in [tool.name for tool in tools.tools], tools
    code = {"language": "sh", "code": "echo $((6 * 7)); exit 3"}
    result = await client.call_tool("run_code", code)
    assert not result.is_error and result.structured_content["exit_code"] == 3, result
    assert result.content[0].text.startswith("42\n"), result
    result = await client.call_tool("run_code", {**code, "memory": "1TiB"})
    assert result.is_error, result
    kind = result.structured_content["error"]["kind"]
    assert kind == "policy_exceeded", result

    created = await client.call_tool("sandbox_create", {})
    name = created.structured_content["sandbox"]
    reported = asyncio.Event()

    async def progress(done, total, message):
        assert 0 < done < total, message
        reported.set()

    wait = {"sandbox": name, "command": "exec sleep 1000"}
    waiting = asyncio.create_task(
        client.call_tool("sandbox_exec", wait, progress_callback=progress)
    )
    await reported.wait()
    waiting.cancel()
    await asyncio.wait([waiting])
    alive = {"sandbox": name, "command": "echo alive"}
    result = await client.call_tool("sandbox_exec", alive)
    assert result.structured_content["stdout"]["text"] == "alive\n", result
    policy = await client.read_resource("sandbox://policy")
    assert '"tier": "local"' in policy.contents[0].text, policy


async def main():
    for mode, version in [("auto", "2026-07-28"), ("legacy", "2025-11-25")]:
        server = StdioServerParameters(command=PROGRAM, args=["mcp"])
        async with Client(server, mode=mode) as client:
            assert client.protocol_version == version, client.protocol_version
            await use(client)
        command = [PROGRAM, "mcp", "--http", "127.0.0.1:0"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
            try:
                url = re.search(r"http://\S+", server.stderr.readline())[0]
                token = server.stderr.readline().split()[-1]
                headers = {"Authorization": f"Bearer {token}"}
                http = httpx2.AsyncClient(headers=headers, timeout=60)
                transport = streamable_http_client(url, http_client=http)
                async with Client(transport, mode=mode) as client:
                    await use(client)
            finally:
                server.terminate()


asyncio.run(main())
