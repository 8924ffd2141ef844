// Three things that HTML lacks: parts of a page that the server sends anew, times in the viewer's zone,
// and a plan, with the messages at its fields, while one types. Without this script every page works, by loading it or by its button.
"use strict";

const ZONED = new Intl.DateTimeFormat("sv-SE", {
  year: "numeric", month: "2-digit", day: "2-digit",
  hour: "2-digit", minute: "2-digit", second: "2-digit",
});

const SCROLLING = ".scroll, .drawing";

function showZone(root) {
  for (const time of root.querySelectorAll("time[data-zone=time]")) {
    const at = new Date(time.dateTime);
    if (!Number.isNaN(at.getTime())) {
      time.title = time.textContent;
      time.textContent = ZONED.format(at);
      time.dataset.zone = "shown";
    }
  }
}

// The server has escaped every value, and the policy of contents runs nothing that stands in HTML.
function replaceRegion(name, html) {
  const region = document.querySelector(`[data-region="${CSS.escape(name)}"]`);
  if (region === null) return;
  const open = Array.from(region.querySelectorAll("details[id][open]"), (one) => one.id);
  const focused = region.contains(document.activeElement) ? document.activeElement.id : "";
  const scrolled = Array.from(region.querySelectorAll(SCROLLING), (one) => one.scrollLeft);
  const parsed = new DOMParser().parseFromString(html, "text/html");
  region.replaceChildren(...parsed.body.childNodes);
  for (const id of open) region.querySelector(`#${CSS.escape(id)}`)?.setAttribute("open", "");
  region.querySelectorAll(SCROLLING).forEach((one, place) => { one.scrollLeft = scrolled[place] ?? 0; });
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  showZone(region);
}

function follow(page) {
  const state = page.querySelector("[data-live-state]");
  let source = null;
  let ended = false;
  const say = (text, tone) => {
    if (state !== null && state.textContent !== text) {
      state.textContent = text;
      state.dataset.tone = tone;
    }
  };
  const begin = () => {
    source = new EventSource(page.dataset.live);
    source.addEventListener("done", () => { ended = true; end(); say("Ended", ""); });
    source.onopen = () => say("Live", "good");
    source.onerror = () => say("Connection lost; trying again", "bad");
    source.onmessage = (event) => {
      const found = JSON.parse(event.data);
      if (found.problem) say(found.problem, "bad");
      else say("Live", "good");
      for (const [name, html] of Object.entries(found.regions ?? {})) replaceRegion(name, html);
    };
  };
  const end = () => { source?.close(); source = null; };
  // A page that is not seen asks for nothing; browsers allow a host few connections.
  document.addEventListener("visibilitychange", () => {
    if (ended) return;
    if (document.hidden) { end(); say("Paused", ""); } else if (source === null) begin();
  });
  window.addEventListener("pagehide", end);
  if (!document.hidden) begin();
}

// The messages at the fields of a form, and its buttons, as a page has them; what is the same stays.
function showRefusal(form, page) {
  for (const region of form.querySelectorAll("[data-region]")) {
    const name = region.dataset.region;
    const found = page.querySelector(`form [data-region="${CSS.escape(name)}"]`);
    if (found !== null && found.innerHTML !== region.innerHTML) replaceRegion(name, found.innerHTML);
  }
  for (const field of form.querySelectorAll("[name]")) {
    const found = page.querySelector(`form[data-plan] [name="${CSS.escape(field.name)}"]`);
    if (found?.getAttribute("aria-invalid") === "true") {
      field.setAttribute("aria-invalid", "true");
      field.closest("details")?.setAttribute("open", "");
    } else field.removeAttribute("aria-invalid");
  }
}

// The plan of a form, half a second after the last change; an answer that is overtaken is dropped.
function planAsOneTypes(form) {
  let timer = 0;
  let asking = null;
  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(async () => {
      asking?.abort();
      asking = new AbortController();
      try {
        const answer = await fetch(form.dataset.plan, {
          method: "POST", body: new URLSearchParams(new FormData(form)),
          headers: { accept: "text/html" }, signal: asking.signal,
        });
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        const plan = page.querySelector("[data-region=plan]");
        replaceRegion("plan", plan?.innerHTML ?? "<p>No plan: the console refused; load the page again.</p>");
        if (plan !== null) showRefusal(form, page);
      } catch (error) {
        if (error.name !== "AbortError") replaceRegion("plan", "<p>The console cannot be reached.</p>");
      }
    }, 500);
  });
}

showZone(document);
for (const form of document.querySelectorAll("form[data-plan]")) planAsOneTypes(form);
for (const page of document.querySelectorAll("[data-live]")) follow(page);
