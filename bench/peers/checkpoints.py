"""LangGraph's SqliteSaver: the persistence part of a turn, get_tuple and put of a checkpoint with all messages.

Driven by the benchmark, so that its rounds can be interleaved with others: after `ready` it reads lines of
`seconds sessions messages`, takes turns for that long with so many threads, each on a session of its own with so many
messages of history, and prints what it did as one line of JSON.

    checkpoints.py FILE
"""

import json
import sqlite3
import sys
import threading
import time
import uuid

from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.sqlite import SqliteSaver

TEXT = ("the quick brown fox jumps over the lazy dog " * 7)[:300]


def message(n):
    return {"role": "user" if n % 2 == 0 else "assistant", "content": TEXT, "id": str(n)}


def save(saver, config, messages):
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = {"messages": messages}
    checkpoint["channel_versions"] = {"messages": len(messages)}
    return saver.put(config, checkpoint, {"source": "loop", "step": len(messages)}, {"messages": len(messages)})


def turns(saver, thread, history, until, tally):
    config = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
    messages = [message(n) for n in range(history)]
    config = save(saver, config, messages)
    done = 0
    while time.monotonic() < until():
        found = saver.get_tuple(config)
        # The history is cut to its length again, so that the measure does not grow with itself.
        messages = found.checkpoint["channel_values"]["messages"][-(history - 2) :] + [message(done), message(done + 1)]
        config = save(saver, config, messages)
        done += 1
    with tally["lock"]:
        tally["done"] += done


def main():
    connection = sqlite3.connect(sys.argv[1], check_same_thread=False)
    # As durable as what it is compared with.
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    saver = SqliteSaver(connection)
    saver.setup()
    print("ready", flush=True)
    for line in sys.stdin:
        seconds, sessions, history = line.split()
        tally = {"done": 0, "lock": threading.Lock()}
        started = threading.Event()
        clock = {}

        def until():
            return clock["until"]

        def run(thread):
            started.wait()
            turns(saver, thread, int(history), until, tally)

        threads = [threading.Thread(target=run, args=(uuid.uuid4().hex,)) for _ in range(int(sessions))]
        for thread in threads:
            thread.start()
        start = time.monotonic()
        clock["until"] = start + float(seconds)
        started.set()
        for thread in threads:
            thread.join()
        took = time.monotonic() - start
        print(json.dumps({"appends": tally["done"], "failures": 0, "seconds": took}), flush=True)


main()
