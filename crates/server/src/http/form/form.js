// The script of a form's page. It sends what the form holds as JSON and says what came of it; a response is saved while
// it is written. Text only: nothing that comes back becomes markup. Without this script the browser sends the form.
"use strict";

const SAVE_AFTER_MS = 1000;
const RETRY_AFTER_MS = 5000;

const form = document.querySelector("form[data-view]");
const share = new URLSearchParams(location.search).get("share");

class Refused extends Error {
  constructor(status, error, waitMs) {
    super(error.message);
    this.status = status;
    this.code = error.code;
    this.field = error.field;
    this.waitMs = waitMs;
  }
}

async function call(method, path, body, keepalive) {
  const headers = {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (share) headers["X-Share-Token"] = share;
  const answer = await fetch("../api/" + path, {
    method, headers, keepalive, credentials: "same-origin",
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const read = await answer.json();
  if (!answer.ok) throw new Refused(answer.status, read.error, 1000 * Number(answer.headers.get("Retry-After")));
  return read;
}

// Fields

const inputs = (key) => [...form.querySelectorAll("[data-type]")].filter((input) => !key || input.name === key);
const keys = () => [...new Set(inputs().map((input) => input.name))];

/// What the inputs of one question hold; null where that is nothing.
function valueOf(key) {
  const all = inputs(key);
  const type = all[0].dataset.type;
  if (type === "multi_choice") return all.filter((input) => input.checked).map((input) => input.value);
  const input = all[0].type === "radio" ? all.find((radio) => radio.checked) : all[0];
  if (!input || input.value === "") return null;
  switch (type) {
    case "number":
    case "scale": return Number(input.value);
    case "boolean": return input.value === "true";
    default: return input.value;
  }
}

function values(of) {
  const held = Object.create(null);
  for (const key of of) held[key] = valueOf(key);
  return held;
}

/// The whole answer: what was left empty is part of it only where that clears what was saved.
function answer() {
  const held = values(keys());
  for (const key of keys()) if (held[key] === null && draft.saved[key] == null) delete held[key];
  return held;
}

/// Puts a value into the inputs of its question.
function show(key, value) {
  for (const input of inputs(key)) {
    if (input.type === "checkbox") input.checked = Array.isArray(value) && value.includes(input.value);
    else if (input.type === "radio") input.checked = value != null && input.value === String(value);
    else input.value = value == null ? "" : String(value);
  }
}

const same = (a, b) => JSON.stringify(a ?? null) === JSON.stringify(b ?? null);

// What the page says

function say(text, key) {
  const wrong = form.querySelector(".wrong");
  wrong.textContent = text;
  wrong.hidden = text === "";
  for (const input of inputs()) input.removeAttribute("aria-invalid");
  if (!key) return;
  for (const input of inputs(key)) input.setAttribute("aria-invalid", "true");
  inputs(key)[0]?.focus();
}

/// A refusal, with the question named as the page names it.
function inWords(refused) {
  const key = refused.field?.startsWith("values.") ? refused.field.slice("values.".length) : undefined;
  const input = key === undefined ? undefined : inputs(key)[0];
  if (!input) return [refused.message, undefined];
  const legend = input.closest("fieldset")?.querySelector("legend");
  const label = (legend ?? form.querySelector(`label[for="${input.id}"]`)).firstChild.textContent.trim();
  return [refused.message.replace("`" + refused.field + "`", "“" + label + "”"), key];
}

function end(text) {
  draft.ended = true;
  const said = document.createElement("p");
  said.setAttribute("role", "status");
  said.tabIndex = -1;
  said.textContent = text;
  form.replaceWith(said);
  said.focus();
}

const thank = () => end("Thank you. Your answer has been received.");

// A response, which is saved while it is written

const draft = { id: null, version: null, saved: Object.create(null), changed: new Set(), timer: 0, busy: null };

function state(name, text) {
  const shown = form.querySelector(".saved");
  shown.dataset.state = name;
  if (shown.textContent !== text) shown.textContent = text;
}

function take(response) {
  draft.id = response.id;
  draft.version = response.version;
  draft.saved = response.values;
  // What was entered here and is not saved yet stays as it is.
  for (const key of keys()) if (!draft.changed.has(key)) show(key, response.values[key]);
}

const view = () => "views/" + encodeURIComponent(form.dataset.view);
const response = () => "responses/" + encodeURIComponent(draft.id);

function later(ms) {
  clearTimeout(draft.timer);
  draft.timer = setTimeout(save, ms);
}

/// Saves what has changed, one request at a time.
async function save() {
  clearTimeout(draft.timer);
  if (draft.busy) await draft.busy;
  if (draft.changed.size === 0 || draft.ended) return;
  draft.busy = send([...draft.changed]);
  await draft.busy;
  draft.busy = null;
}

async function send(changed) {
  const sent = values(changed);
  state("saving", "Saving…");
  try {
    if (!draft.id) take(await call("POST", view() + "/responses", {}));
    const saved = await call("PATCH", response(), { values: sent, version: draft.version });
    draft.version = saved.version;
    draft.saved = saved.values;
    for (const key of changed) if (same(valueOf(key), sent[key])) draft.changed.delete(key);
    if (draft.changed.size === 0) state("saved", "Saved");
    say("");
  } catch (refused) {
    await failed(refused);
  }
}

async function failed(refused) {
  if (!(refused instanceof Refused) || refused.status === 429 || refused.status >= 500) {
    state("unsaved", "Not saved: there is no connection to the server. Trying again…");
    return later(refused.waitMs || RETRY_AFTER_MS);
  }
  if (refused.code === "stale_base") {
    // Another tab has saved. Its values come in; what was entered here is saved on top of them.
    try {
      take(await call("GET", response()));
      return later(0);
    } catch (unread) {
      return failed(unread);
    }
  }
  const ends = {
    already_answered: "You have answered this form already.",
    session_closed: "This answer was sent or given up in another window.",
    view_closed: "This form takes no answers any more.",
  };
  if (Object.hasOwn(ends, refused.code)) return end(ends[refused.code]);
  const [text] = inWords(refused);
  state("unsaved", "Not saved: " + text);
}

function typed(event) {
  const key = event.target.name;
  if (!key) return;
  if (same(valueOf(key), draft.saved[key])) draft.changed.delete(key);
  else draft.changed.add(key);
  if (draft.changed.size === 0) return state("saved", draft.id ? "Saved" : "");
  state("waiting", "Not saved yet");
  later(SAVE_AFTER_MS);
}

/// The last words of somebody who closes the page before they were saved.
function leave() {
  if (draft.changed.size === 0 || !draft.id || draft.busy || draft.ended) return;
  call("PATCH", response(), { values: values([...draft.changed]), version: draft.version }, true).catch(() => {});
}

async function resume() {
  form.addEventListener("input", typed);
  addEventListener("pagehide", leave);
  try {
    take(await call("POST", view() + "/responses", {}));
    if (Object.keys(draft.saved).length > 0) state("saved", "Saved: this is what you entered before.");
  } catch (refused) {
    await failed(refused);
  }
}

// Sending

async function submit() {
  if (form.dataset.kind === "lead") {
    await call("POST", view() + "/lead", answer());
    return location.reload();
  }
  if (form.dataset.kind === "answer") {
    await call("POST", view() + "/submit-interaction", { values: answer() });
    return thank();
  }
  clearTimeout(draft.timer);
  if (draft.busy) await draft.busy;
  if (!draft.id) take(await call("POST", view() + "/responses", {}));
  await call("POST", response() + "/submit", { values: answer() });
  thank();
}

async function sent(event) {
  event.preventDefault();
  const button = form.querySelector("button");
  button.disabled = true;
  say("");
  try {
    await submit();
  } catch (refused) {
    if (refused instanceof Refused) say(...inWords(refused));
    else say("The answer could not be sent. Please try again.");
    if (draft.changed.size > 0) later(SAVE_AFTER_MS);
  } finally {
    button.disabled = false;
  }
}

if (form) {
  form.addEventListener("submit", sent);
  if (form.dataset.kind === "response") resume();
}
