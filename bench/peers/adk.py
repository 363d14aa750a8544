"""Google ADK's DatabaseSessionService on a SQLite file: 32 tasks, one session each, 300-byte events.

Driven by the benchmark, so that its rounds can be interleaved with others: after `ready` it reads a number of
seconds per line, appends for that long, and prints what it did as one line of JSON.

    adk.py FILE [TASKS]
"""

import asyncio
import json
import sys
import time
import warnings

warnings.filterwarnings("ignore")

from google.adk.events.event import Event  # noqa: E402
from google.adk.sessions.database_session_service import DatabaseSessionService  # noqa: E402
from google.genai import types  # noqa: E402

TEXT = ("the quick brown fox jumps over the lazy dog " * 7)[:300]


async def append_for(service, session, until, tally):
    while time.monotonic() < until:
        event = Event(
            author="user",
            invocation_id="bench",
            content=types.Content(role="user", parts=[types.Part(text=TEXT)]),
        )
        try:
            await service.append_event(session, event)
            tally["appends"] += 1
        except Exception as error:  # a locked database: counted, reported, and tried again
            tally["failures"] += 1
            tally["last_failure"] = f"{type(error).__name__}: {error}"[:200]


async def main():
    path, tasks = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 32
    service = DatabaseSessionService(f"sqlite+aiosqlite:///{path}")
    sessions = [
        await service.create_session(app_name="bench", user_id=f"u{n}", session_id=f"s{n}") for n in range(tasks)
    ]
    print("ready", flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        tally = {"appends": 0, "failures": 0}
        start = time.monotonic()
        until = start + float(line)
        await asyncio.gather(*(append_for(service, session, until, tally) for session in sessions))
        tally["seconds"] = time.monotonic() - start
        print(json.dumps(tally), flush=True)
    await service.close()


asyncio.run(main())
