"""Leads made-up requests to where they meet something: sessions, definitions and approvals that exist, claims that are
held, a caller that is let in. One in ten is left as it was made, and so is everything else about the others."""

import os
import random

import schemathesis

WAIT_MS_MAX = 50  # a claim may wait for a minute when it is asked to
KEPT = 40
CLAIMED_VERBS = ("heartbeat", "delta", "complete", "fail", "yield", "events")

drawn = random.Random(int(os.environ["SEED"]))
sessions, claims, approvals = [], [], []
# What was defined, by the path that defines it.
defined = {f"/api/{noun}": [] for noun in ("tasks", "actions", "agents", "entities", "criteria-sets")}
defined["/api/actions"] = defined["/api/tasks"]

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
    # What does not exist cannot be named.
    for name in ("agent_slug", "entity_id", "criteria_set_id", "criteria_set_ids", "steps", "output"):
        if case.path in defined and drawn.random() < 0.8:
            body.pop(name, None)
    if case.path in ("/api/tasks", "/api/actions") and isinstance(body.get("slug"), str):
        body.update(agent_slug="eliza", status="active")
    noun = case.path.removesuffix("/tool-approval").partition("/{id}")[0]
    if "{id}" in case.path and defined.get(noun):
        case.path_parameters["id"] = drawn.choice(defined[noun])
    if case.path.startswith("/api/approvals/{id}") and approvals:
        case.path_parameters["id"] = drawn.choice(approvals)
    if case.path.startswith("/api/today/{bucket}"):
        buckets = ("needs_me", "running", "delegatable", "failed", "done_today")
        case.path_parameters["bucket"] = drawn.choice(buckets)
    if case.path.startswith("/api/sessions/{id}"):
        if case.path.rsplit("/", 1)[-1] in CLAIMED_VERBS and claims and drawn.random() < 0.5:
            case.path_parameters["id"], epoch = drawn.choice(claims)
            if "epoch" in body:
                body["epoch"] = epoch
        elif sessions:
            case.path_parameters["id"] = drawn.choice(sessions)


@schemathesis.hook
def after_call(context, case, response):
    if response.status_code == 200 and case.path == "/api/approvals":
        approvals.extend(approval["id"] for approval in response.json()["items"])
        del approvals[:-KEPT]
    if case.method.upper() != "POST" or response.status_code not in (200, 201):
        return
    if case.path in defined:
        defined[case.path].append(response.json()["id"])
        del defined[case.path][:-KEPT]
    elif case.path == "/api/sessions" or case.path.endswith("/trigger"):
        sessions.append(response.json()["id"])
    elif case.path == "/api/claims":
        claims.extend((claim["session"]["id"], claim["epoch"]) for claim in response.json()["claims"])
    del sessions[:-KEPT], claims[:-KEPT]
