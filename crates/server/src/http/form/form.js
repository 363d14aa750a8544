// Sends what a form holds as JSON, and says what came of it. Text only: nothing that comes back becomes markup.
"use strict";

const form = document.querySelector("form[data-view]");
const share = new URLSearchParams(location.search).get("share");

function valueOf(field) {
  switch (field.dataset.type) {
    case "number":
    case "scale": return Number(field.value);
    case "boolean": return field.value === "true";
    default: return field.value;
  }
}

function values() {
  const given = Object.create(null);
  for (const field of form.querySelectorAll("[data-type]")) {
    if (field.dataset.type === "multi_choice") {
      given[field.name] = given[field.name] || [];
      if (field.checked) given[field.name].push(field.value);
    } else if (field.value !== "" && (field.type !== "radio" || field.checked)) {
      given[field.name] = valueOf(field);
    }
  }
  return given;
}

function say(text) {
  const wrong = form.querySelector(".wrong");
  wrong.textContent = text;
  wrong.hidden = text === "";
}

async function send(event) {
  event.preventDefault();
  const lead = form.dataset.kind === "lead";
  const path = "../api/views/" + encodeURIComponent(form.dataset.view) + (lead ? "/lead" : "/submit-interaction");
  const headers = { "Content-Type": "application/json" };
  if (share) headers["X-Share-Token"] = share;
  const button = form.querySelector("button");
  button.disabled = true;
  say("");
  try {
    const body = JSON.stringify(lead ? values() : { values: values() });
    const answer = await fetch(path, { method: "POST", headers, body, credentials: "same-origin" });
    if (answer.ok && lead) {
      location.reload();
    } else if (answer.ok) {
      const thanks = document.createElement("p");
      thanks.setAttribute("role", "status");
      thanks.textContent = "Thank you. Your answer has been received.";
      form.replaceWith(thanks);
    } else {
      const refused = await answer.json();
      say(refused.error.message);
    }
  } catch {
    say("The answer could not be sent. Please try again.");
  } finally {
    button.disabled = false;
  }
}

if (form) form.addEventListener("submit", send);
