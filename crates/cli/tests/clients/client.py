"""The official Python client of MCP: does the steps that it is told, and prints what came of each, as JSON.

    client.py STEPS stdio COMMAND...
    client.py STEPS http URL [KEY]

A step is ["tools"], ["resources"], ["templates"], ["call", name, arguments] or ["read", uri].
"""

import asyncio
import json
import os
import sys

import httpx
from mcp import ClientSession, McpError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client


async def step(session, kind, *rest):
    if kind == "tools":
        return [tool.name for tool in (await session.list_tools()).tools]
    if kind == "resources":
        return [str(resource.uri) for resource in (await session.list_resources()).resources]
    if kind == "templates":
        return [template.uriTemplate for template in (await session.list_resource_templates()).resourceTemplates]
    if kind == "call":
        result = await session.call_tool(*rest)
        return {"is_error": result.isError, "value": result.structuredContent, "text": result.content[0].text}
    if kind == "read":
        contents = (await session.read_resource(rest[0])).contents[0]
        return {"mime_type": contents.mimeType, "text": contents.text}
    raise ValueError(kind)


async def talk(read, write, steps):
    async with ClientSession(read, write) as session:
        hello = await session.initialize()
        outcomes = [{"server": hello.serverInfo.name, "version": hello.protocolVersion}]
        for one in steps:
            try:
                outcomes.append(await step(session, *one))
            except McpError as error:
                outcomes.append({"error": error.error.code, "message": error.error.message})
    print(json.dumps(outcomes))


async def main():
    steps, transport, *rest = sys.argv[1:]
    steps = json.loads(steps)
    if transport == "stdio":
        server = StdioServerParameters(command=rest[0], args=rest[1:], cwd=os.getcwd())
        async with stdio_client(server) as (read, write):
            await talk(read, write, steps)
    else:
        headers = {"Authorization": f"Bearer {rest[1]}"} if len(rest) > 1 else {}
        async with httpx.AsyncClient(headers=headers) as http:
            async with streamable_http_client(rest[0], http_client=http) as (read, write, _):
                await talk(read, write, steps)


asyncio.run(main())
