"""Leads made-up requests to where they meet something: sessions that exist, claims that are held, a caller that is let
in. One in ten is left as it was made, and so is everything else about the others."""

import os
import random

import schemathesis

WAIT_MS_MAX = 50  # a claim may wait for a minute when it is asked to
KEPT = 40
CLAIMED_VERBS = ("heartbeat", "delta", "complete", "fail", "yield", "events")

drawn = random.Random(int(os.environ["SEED"]))
sessions, claims = [], []

# What most callers leave out, and what contradicts itself when it is all there.
RARE = ("id", "source", "status", "parent_id", "memory_mode", "input", "metadata", "participants", "priority")


@schemathesis.hook
def before_call(context, case, kwargs):
    body = case.body if isinstance(case.body, dict) else {}
    if isinstance(body.get("wait_ms"), int) and WAIT_MS_MAX < body["wait_ms"] <= 60_000:
        body["wait_ms"] = WAIT_MS_MAX
    if drawn.random() < 0.1:
        return
    for name in list(case.headers or {}):
        if name.lower() in ("x-sederunt-user", "x-share-token", "authorization"):
            del case.headers[name]
    if case.query:
        case.query.pop("share", None)
    if case.path == "/api/sessions":
        for name in [name for name in RARE if name in body and drawn.random() < 0.8]:
            del body[name]
        if "session_type" in body and drawn.random() < 0.5:
            body.update(session_type="agent", status="pending")
    if case.path.startswith("/api/sessions/{id}"):
        if case.path.rsplit("/", 1)[-1] in CLAIMED_VERBS and claims and drawn.random() < 0.5:
            case.path_parameters["id"], epoch = drawn.choice(claims)
            if "epoch" in body:
                body["epoch"] = epoch
        elif sessions:
            case.path_parameters["id"] = drawn.choice(sessions)


@schemathesis.hook
def after_call(context, case, response):
    if case.method.upper() != "POST" or response.status_code not in (200, 201):
        return
    if case.path == "/api/sessions":
        sessions.append(response.json()["id"])
    elif case.path == "/api/claims":
        claims.extend((claim["session"]["id"], claim["epoch"]) for claim in response.json()["claims"])
    del sessions[:-KEPT], claims[:-KEPT]
