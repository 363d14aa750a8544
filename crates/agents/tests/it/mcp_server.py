"""An independent MCP server for the tests.

`mcp_server.py [ROPE]` speaks on its standard streams, and holds a connection to the port ROPE as long as it lives;
`mcp_server.py http [PORT]` speaks over HTTP, and prints its port.
"""

import asyncio
import os
import socket
import sys

from mcp.server.fastmcp import Context, FastMCP
from pydantic import BaseModel

server = FastMCP("fixture", log_level="ERROR")


@server.tool(description="Adds two numbers.")
def add(a: int, b: int) -> str:
    return str(a + b)


@server.tool(name="who.am-i", description="Names the process and what it sees.")
def who() -> str:
    return f"{os.getpid()} {','.join(sorted(name for name in os.environ if name != 'LC_CTYPE'))}"


@server.tool()
def meta(ctx: Context) -> str:
    found = ctx.request_context.meta
    found = found if isinstance(found, dict) else found.model_dump()
    return ",".join(f"{key}={found[key]}" for key in sorted(found) if key.startswith("sederunt/"))


@server.tool()
def fail() -> str:
    raise ValueError("it cannot be done")


@server.tool()
def ask() -> dict:
    return {"requires_confirmation": True, "summary": "Really?"}


class Choice(BaseModel):
    colour: str


@server.tool()
async def choose(ctx: Context) -> str:
    answer = await ctx.elicit("Which colour?", Choice)
    chosen = answer.data.colour if answer.action == "accept" else None
    return f"{answer.action} {chosen}"


@server.tool()
async def choose_for(ctx: Context, key: str) -> str:
    answer = await ctx.elicit(f"Which colour for {key}?", Choice)
    return f"{answer.action} for {key}"


@server.tool()
async def hang() -> str:
    await asyncio.sleep(3600)
    return "late"


@server.tool()
def crash() -> str:
    os._exit(3)


async def over_http(port: int) -> None:
    import uvicorn

    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen()
    print(listener.getsockname()[1], flush=True)
    app = server.streamable_http_app()
    await uvicorn.Server(uvicorn.Config(app, log_level="error")).serve(sockets=[listener])


if sys.argv[1:2] == ["http"]:
    asyncio.run(over_http(int(sys.argv[2]) if len(sys.argv) > 2 else 0))
else:
    rope = [socket.create_connection(("127.0.0.1", int(port))) for port in sys.argv[1:]]
    server.run("stdio")
