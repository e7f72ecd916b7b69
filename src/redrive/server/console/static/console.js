// Redrive console: keys, clock and zone, live updates, copying, theme. Every page works without it.
(() => {
  "use strict";
  const $ = (what, from = document) => from.querySelector(what), all = (what, from = document) => [...from.querySelectorAll(what)];
  const body = document.body, root = document.documentElement;
  const kept = (name) => { try { return localStorage.getItem(name); } catch { return null; } };
  const keep = (name, value) => { try { localStorage.setItem(name, value); } catch { /* private window */ } };
  const cookie = (name, value) => { document.cookie = `${name}=${value}; path=/; max-age=31536000; samesite=lax`; };
  const say = (text) => { $("[data-say]").textContent = text; };
  const busy = () => $("[data-sheet], #content .menu[open]") || document.activeElement?.matches("#content input:not([type=checkbox]), #content textarea, #content select");

  // --- clock and zone: the server writes times in the zone of the cookie
  const own = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
  function tick() {
    const clock = $("[data-clock]"), now = new Date(), zone = body.dataset.zone || "UTC";
    if (clock) clock.textContent = new Intl.DateTimeFormat("en-GB", { timeZone: zone, hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short" }).format(now);
    all("time[data-time=ago]").forEach((each) => {
      const s = Math.round((now - new Date(each.dateTime)) / 1000), [n, unit] = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]].find(([n]) => Math.abs(s) >= n) || [1, "s"];
      const text = Math.abs(s) < 1 ? "now" : s < 0 ? `in ${Math.floor(-s / n)} ${unit}` : `${Math.floor(s / n)} ${unit} ago`;
      if (each.textContent !== text) each.textContent = text;
    });
  }

  // --- live updates: one stream per browser; the tab with the lock listens for all
  const live = $("[data-live]"), topics = (body.dataset.topics || "").split(" ").filter(Boolean);
  let tag = "", waits = 0, seen = Date.now(), heard = false, failed = false, paused = kept("redrive-paused") === "1", pending = false, notBefore = 0, turn = Promise.resolve();
  function show() {
    if (!live || !topics.length) return;
    const age = Math.round((Date.now() - seen) / 1000), isLive = heard && !failed, state = paused ? "paused" : isLive ? "live" : "old";
    live.hidden = false; live.dataset.state = state; live.setAttribute("aria-pressed", String(!paused));
    live.setAttribute("aria-label", paused ? "Live updates are paused. Resume them." : "Live updates are on. Pause them.");
    $("[data-live-word]").textContent = paused ? "Paused" : isLive ? "Live" : age < 6 ? "Reconnecting" : `${age} s old`;
    body.classList.toggle("old", state === "old" && age > 15);
  }
  // Rows stay where they are, as somebody may be about to press one. Rows that are new wait until they are asked for.
  function held(html) {
    const list = $("[data-list]"), fresh = new DOMParser().parseFromString(html, "text/html"), next = $("[data-list]", fresh);
    if (!list || !next || !(list.dataset.list === "always" || list.matches(":hover, :focus-within"))) return html;
    const rows = new Map(all(":scope > [data-id]", next).map((each) => [each.dataset.id, each])), isWhole = !$("[rel=next]", fresh);
    all(":scope > [data-id]", list).forEach((was) => {
      const is = rows.get(was.dataset.id);
      if (!is && isWhole && !was.classList.contains("gone")) {
        const word = document.createElement("span"); word.className = "chip line"; word.textContent = "no longer in this list";
        was.classList.add("gone"); $(".grow", was).append(word);
      }
      next.append(is || document.importNode(was, true)); rows.delete(was.dataset.id);
    });
    rows.forEach((each) => each.remove());
    const more = $("[data-new]", fresh); more.hidden = !rows.size; more.textContent = `${rows.size} new ${rows.size === 1 ? more.dataset.one : more.dataset.many} · show`;
    return all(":scope > *", fresh.body).map((each) => each.outerHTML).join("");
  }
  // What a screen reader hears of all that changes: one sentence, every 10 seconds at most.
  let told = $("[data-news]:not([hidden])")?.innerText, toldAt = 0, tells = 0;
  function tell() {
    const text = $("[data-news]:not([hidden])")?.innerText.replace(/\s+/g, " "), waits = toldAt + 10000 - Date.now();
    clearTimeout(tells);
    if (!text || text === told) return;
    if (waits > 0) { tells = setTimeout(tell, waits); return; }
    told = text; toldAt = Date.now(); say(text);
  }
  const isHeld = () => paused || document.hidden || busy();
  async function fetchNow(always, isWhole) {
    if (!always && isHeld()) { pending = true; return; }
    pending = false;
    try {
      const got = await fetch(location.href, { headers: { "Redrive-Fragment": "1", Accept: "text/html", ...(tag && !isWhole ? { "If-None-Match": tag } : {}) }, cache: "no-store", signal: AbortSignal.timeout(60000) });
      if (got.redirected) return location.reload();
      if (got.status >= 500) throw new Error(got.statusText);
      if (got.status === 200) { const html = await got.text(); await swap(isWhole ? html : held(html)); tag = got.headers.get("ETag") || ""; tell(); }
      if (got.status < 400) { seen = Date.now(); heard = true; }
      failed = false;
    } catch { failed = pending = true; notBefore = Date.now() + 5000; }
    tick(); show();
  }
  async function swap(text) {
    const ticked = all("#content .check[name]:checked").map((each) => each.value), open = all("#content details").map((each) => each.open);
    const settled = htmx.swap({ text, target: $("#content"), sourceElement: $("#content"), swap: "innerMorph" });
    // The page is new now, and settles later: what is pressed meanwhile must find the ticks where they belong.
    all("#content .check[name]").forEach((each) => { each.checked = ticked.includes(each.value); });
    const folds = all("#content details"); if (folds.length === open.length) folds.forEach((each, i) => { each.open = open[i]; });
    all("#content [data-of]").forEach((each) => all(`[data-n="${each.dataset.of}"]`).forEach((n) => {
      n.textContent = "short" in n.dataset ? each.dataset.short : each.textContent; n.hidden = each.textContent === "0";
    }));
    ready(); picked();
    await settled;
  }
  // One after the other, so that no answer replaces a later one. What changes while one is under way is fetched after it.
  const fetchPage = (always, isWhole) => (turn = turn.then(() => fetchNow(always, isWhole)));
  // However often something changes, the page follows: the first change sets the time, and later ones do not move it.
  function soon() { waits ||= setTimeout(() => { turn = turn.then(() => { waits = 0; return fetchNow(); }); }, 300); }
  function changed(names) {
    if (!failed) seen = Date.now();
    heard = true; show();
    if (names.includes("everything") || topics.includes("everything") || topics.some((each) => names.includes(each))) soon();
  }
  // A browser does not ask again when a stream was refused, as by a server that starts: it is asked here.
  function streamFrom(address, on) {
    const stream = new EventSource(address);
    Object.assign(stream, on, { onerror: () => { on.onerror?.(stream); if (stream.readyState === 2) setTimeout(streamFrom, 2000, address, on); } });
  }
  function listen() {
    const channel = new BroadcastChannel("redrive"), tell = (data) => { channel.postMessage(data); channel.onmessage({ data }); };
    let open = false;
    soon(); // what has changed since the page was made, before this tab listened
    channel.onmessage = (event) => (event.data.away ? ((heard = false), show()) : changed(event.data.topics));
    navigator.locks.request("redrive-stream", () => new Promise(() => {
      streamFrom("/api/v1/events", {
        onopen: () => { open = true; tell({ topics: ["everything"] }); }, // what has changed before was not told
        onmessage: (event) => tell({ topics: JSON.parse(event.data) }),
        onerror: (stream) => { open = false; tell({ away: true }); if (stream.readyState === 2) soon(); }, // it may be the person who is refused
      });
      setInterval(() => { if (open) tell({ topics: [] }); }, 5000);
    }));
  }
  if (topics.length) {
    if (navigator.locks && window.BroadcastChannel && window.EventSource) listen(); else setInterval(fetchPage, 5000);
    setTimeout(() => { heard = heard || !navigator.locks; show(); }, 600);
    document.addEventListener("visibilitychange", () => { if (!document.hidden && pending) fetchPage(); });
    live.addEventListener("click", () => { paused = !paused; keep("redrive-paused", paused ? "1" : ""); say(paused ? "Paused" : "Live"); show(); if (!paused) fetchPage(); });
  }
  if (!document.cookie.includes("redrive-zone=")) { cookie("redrive-zone", own); if (body.dataset.zone !== own) { body.dataset.zone = own; fetchPage(true); } }
  setInterval(() => { tick(); show(); if (pending && !isHeld() && Date.now() >= notBefore) soon(); }, 1000); tick();

  // --- selection: the bar follows what is ticked
  function picked() {
    const bar = $("[data-selbar]"); if (!bar) return;
    const ticked = all("#content .check[name]:checked"), n = ticked.reduce((sum, each) => sum + Number(each.dataset.n || 1), 0);
    bar.hidden = !ticked.length; all("#content .g").forEach((row) => row.classList.toggle("sel", Boolean($(".check:checked", row))));
    $("[data-picked]").textContent = `${ticked.length} ${ticked.length === 1 ? bar.dataset.one : bar.dataset.many}${bar.dataset.what ? `, ${n.toLocaleString("en")} messages` : ""}`;
  }
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-all]")) all("#content .check[name]").forEach((each) => { each.checked = event.target.checked; });
    if (event.target.matches("[data-submit]")) event.target.form.requestSubmit();
    picked();
  });
  document.addEventListener("click", (event) => {
    const copied = event.target.closest("[data-copy]");
    if (event.target.closest("[data-new]")) fetchPage(true, true).then(() => $("[data-list] a[href]")?.focus());
    if (copied) navigator.clipboard?.writeText(copied.dataset.copy).then(() => say("Copied"));
  });
  const off = $("[data-keys]"), word = () => { $("[data-keys-switch]").textContent = kept("redrive-keys") === "0" ? "Switch single keys on" : "Switch single keys off"; };
  if (off) { off.hidden = false; word(); off.addEventListener("click", () => { keep("redrive-keys", kept("redrive-keys") === "0" ? "1" : "0"); word(); }); }
  function ready() { all("[data-copy]").forEach((each) => { each.hidden = !navigator.clipboard; }); }

  // --- tap: what a route deals with, the newest first
  const tap = $("[data-tap]");
  if (tap) streamFrom(tap.dataset.tap, { onmessage: (event) => {
    const line = document.createElement("li"); line.className = "mono"; line.textContent = event.data; tap.prepend(line);
    while (tap.children.length > 200) tap.lastChild.remove();
  } });

  // --- keys
  const places = { o: "/", f: "/failed", p: "/operations", q: "/queues", r: "/routes", l: "/pipelines", a: "/audit" };
  let before = "", beforeAt = 0, at = -1, last = null;
  function move(by) {
    const rows = all("#content .g, #content tbody tr"); if (!rows.length) return;
    rows.forEach((row) => row.classList.remove("cur"));
    at = Math.min(Math.max(at + by, 0), rows.length - 1); rows[at].classList.add("cur"); rows[at].scrollIntoView({ block: "nearest" }); $("a[href]", rows[at])?.focus();
  }
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key === "k") { event.preventDefault(); $("[data-jump]")?.focus(); return; }
    if (event.key === "Escape") { const close = $("[data-close]"); if (close) close.click(); else document.activeElement?.blur(); return; }
    if (event.ctrlKey || event.metaKey || event.altKey || kept("redrive-keys") === "0" || event.target.closest("input:not([type=checkbox]), textarea, select")) return;
    const key = event.key, was = event.timeStamp - beforeAt < 2000 ? before : ""; before = key; beforeAt = event.timeStamp;
    const box = () => $(".cur .check") || (document.activeElement && $(".check", document.activeElement.closest(".g") || root));
    const acts = {
      j: () => move(1), k: () => move(-1), "/": () => $("[data-filter]")?.focus(), "?": () => { location.href = "/help"; }, p: () => live?.click(),
      x: () => { const one = box(); if (one) { one.checked = !one.checked; last = one; picked(); } },
      X: () => { const every = all("#content .check[name]"), ends = [every.indexOf(last), every.indexOf(box())].sort((a, b) => a - b); if (ends[0] >= 0) { every.slice(ends[0], ends[1] + 1).forEach((each) => { each.checked = true; }); picked(); } },
      n: () => $("[data-note]")?.focus(),
      z: () => { cookie("redrive-zone", body.dataset.zone === "UTC" ? own : "UTC"); location.reload(); },
      t: () => { const next = { "": "dark", dark: "light", light: "" }[root.dataset.theme || ""]; cookie("redrive-theme", next); if (next) root.dataset.theme = next; else delete root.dataset.theme; },
    };
    if (was === "*" && key === "a") { all("#content .check").forEach((each) => { each.checked = true; }); picked(); return; }
    if (was === "g" && places[key]) { event.preventDefault(); location.href = places[key]; return; }
    const named = key.length === 1 || key === "Enter" ? all("[data-key]").find((each) => each.dataset.key === key && each.offsetParent) : null;
    if (named) { event.preventDefault(); named.click(); } else if (acts[key]) { event.preventDefault(); acts[key](); }
  });
  ready(); picked();
})();
