"""A worker for Sederunt in Python, with nothing but the standard library.

Claims sessions of one agent, answers each, asks for leave before it "sends" anything, and goes on where the
decision says. Run it beside a server: python3 examples/worker.py http://127.0.0.1:7070 AGENT [RUNS]
"""
import json
import os
import sys
import threading
import urllib.error
import urllib.request

BASE, AGENT = sys.argv[1], sys.argv[2]
RUNS = int(sys.argv[3]) if len(sys.argv) > 3 else None


def post(path, body):
    headers = {"Content-Type": "application/json"}
    if "SEDERUNT_KEY" in os.environ:
        headers["Authorization"] = "Bearer " + os.environ["SEDERUNT_KEY"]
    request = urllib.request.Request(BASE + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=90) as answer:
        return json.load(answer)


def beat(path, epoch, done):
    while not done.wait(10):
        if post(path + "/heartbeat", {"epoch": epoch})["stop_requested"]:
            return


def work(claim):
    path, epoch = "/api/sessions/" + claim["session"]["id"], claim["epoch"]
    done = threading.Event()
    threading.Thread(target=beat, args=(path, epoch, done), daemon=True).start()
    try:
        resume = claim["resume"]
        if resume is None:
            call = {"id": "send-1", "name": "send", "args": {"to": claim["session"]["input"]["to"]}}
            event = {"type": "agent.tool_call", "metadata": {"tool_call_id": "send-1", "tool_name": "send"}}
            post(path + "/events", {"epoch": epoch, "events": [event]})
            post(path + "/yield", {"epoch": epoch, "kind": "tool", "tool_call": call})
        elif resume["decision"] == "approve":
            post(path + "/complete", {"epoch": epoch, "text": "Sent.", "result": {"sent_to": resume["args"]["to"]}})
        else:
            post(path + "/fail", {"epoch": epoch, "error": "denied: " + (resume["reason"] or "no reason")})
    except urllib.error.HTTPError as error:
        # 409 `fenced`: the lease was lost, and another worker goes on.
        print(error.code, error.read().decode(), file=sys.stderr)
    finally:
        done.set()


while RUNS is None or RUNS > 0:
    for claim in post("/api/claims", {"worker": "python", "agent_slugs": [AGENT], "wait_ms": 30000})["claims"]:
        work(claim)
        RUNS = RUNS and RUNS - 1
