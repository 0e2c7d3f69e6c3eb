/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page of allotd. It asks /v1/node again and again while somebody looks at it, and /v1/history
 * when that has a new sample: docs/json.md has both. Names and commands are the words of others:
 * they become text and values of attributes, never markup.
 */
"use strict";

const LOOK_MS = 2000, PATIENCE_MS = 10000, SAMPLES = 30;
const SVG = "http://www.w3.org/2000/svg";

/* --- Elements -------------------------------------------------------------------------------- */

const find = (selector, root = document) => root.querySelector(selector);

function make(name, classes, ...children) {
	const element = document.createElement(name);

	if (classes)
		element.className = classes;
	element.append(...children);
	return element;
}

function say(element, text) {
	if (element.textContent !== text)
		element.textContent = text;
}

/* An empty one takes no room. */
function sayIfAny(element, text) {
	say(element, text);
	element.hidden = !text;
}

/*
 * The children of `parent` are these items, in this order. What was there before stays the same
 * element, so that what somebody selected or touches in it stays, too.
 */
function show(parent, items, keyOf, create, update) {
	const before = new Map(Array.from(parent.children, child => [child.dataset.key, child]));
	let at = parent.firstElementChild;

	for (const item of items) {
		const key = keyOf(item);
		let child = before.get(key);

		before.delete(key);
		if (!child) {
			child = create(item);
			child.dataset.key = key;
		}
		if (child === at)
			at = at.nextElementSibling;
		else
			parent.insertBefore(child, at);
		update(child, item);
	}
	for (const gone of before.values())
		gone.remove();
}

/* --- Words ----------------------------------------------------------------------------------- */

/* Cut to a tenth, never rounded up: what is "8 GiB" is at least that. */
function bytes(n) {
	const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
	let unit = 0;

	for (; n >= 1024 && unit < units.length - 1; unit++)
		n /= 1024;
	return `${n ? Math.floor(n * 10) / 10 + " " + units[unit] : "0"}`;
}

const percent = part => `${(part * 100).toFixed(1)}%`;
const count = (n, one, many) => `${n} ${n === 1 ? one : many}`;
const sum = values => values.reduce((a, b) => a + (b ?? 0), 0);
const keyOf = (...parts) => JSON.stringify(parts);

/* --- Colours --------------------------------------------------------------------------------- */

/* A tenant keeps its colour as long as the page is open. Reds and yellows are kept for what is wrong. */
const hues = new Map();

function tint(element, name) {
	if (!hues.has(name))
		hues.set(name, 85 + (127 + hues.size * 96.5) % 250);
	element.style.setProperty("--hue", hues.get(name));
}

/* --- Pictures -------------------------------------------------------------------------------- */

function drawing(classes, label) {
	const svg = document.createElementNS(SVG, "svg");

	svg.setAttribute("class", classes);
	svg.setAttribute("viewBox", `0 0 ${SAMPLES - 1} 100`);
	svg.setAttribute("preserveAspectRatio", "none");
	svg.setAttribute("role", "img");
	svg.setAttribute("aria-label", label);
	return svg;
}

function path(classes, d) {
	const element = document.createElementNS(SVG, "path");

	element.setAttribute("class", classes);
	element.setAttribute("d", d);
	return element;
}

/* The newest sample stands at the right, however few there are. */
const x = (i, n) => SAMPLES - n + i;
const y = (value, top) => (100 - 100 * Math.min(value / top, 1)).toFixed(1);

/* Through all that is known. */
function line(values, top) {
	let d = "", pen = "M";

	values.forEach((value, i) => {
		if (value !== null)
			d += `${pen}${x(i, values.length)} ${y(value, top)}`;
		pen = value === null ? "M" : "L";
	});
	return d;
}

/* Layers {classes, name, values}, each on those below it; what is not known takes no room. */
function drawStack(svg, layers, top) {
	let floor = null;

	svg.replaceChildren();
	for (const {classes, name, values} of layers.filter(layer => sum(layer.values))) {
		const lower = floor ?? values.map(() => 0);
		const upper = values.map((value, i) => lower[i] + (value ?? 0));
		const back = lower.map((value, i) => `L${x(i, lower.length)} ${y(value, top)}`);
		const area = path(classes, `${line(upper, top)}${back.reverse().join("")}Z`);

		if (name !== undefined)
			tint(area, name);
		svg.append(area);
		floor = upper;
	}
}

/* The scale is the larger of what was asked for and had, so that small shares are seen. */
function drawShare(svg, name, had, asked) {
	const top = Math.min(1, Math.max(0.05, 1.25 * Math.max(0, ...asked), ...had));
	const first = Math.max(0, had.findIndex(value => value !== null));
	const known = had.map((value, i) => i < first ? null : value ?? 0);
	const area = path("area", sum(had)
		? `${line(known, top)}L${SAMPLES - 1} 100L${x(first, had.length)} 100Z` : "");

	tint(svg, name);
	svg.replaceChildren(area, path("had", line(had, top)), path("asked", line(asked, top)));
}

/* --- Devices --------------------------------------------------------------------------------- */

function makeDevice() {
	return make("article", "card",
		make("h3", "", make("span", "index"), make("span", "model"), make("span", "flag bad")),
		make("p", "faint id"),
		make("div", "bar big"),
		make("p", "legend"),
		make("h4", "", "memory", make("span", "faint", "last 10 minutes")),
		drawing("chart", "memory over the last 10 minutes"),
		make("h4", "", "time", make("span", "now")),
		drawing("chart", "time over the last 10 minutes"));
}

/* {tenant, device} of all tenants that use it. */
function usersOf(node, uuid) {
	return node.tenants.flatMap(tenant => (tenant.devices ?? [])
		.filter(device => device.uuid === uuid).map(device => ({tenant, device})));
}

function outsideBytes(node, uuid) {
	return sum((node.outside ?? []).filter(o => o.uuid === uuid && o.driver_bytes !== null)
		.map(o => Math.max(0, o.driver_bytes - o.ledger_bytes)));
}

function updateBar(bar, parts, total) {
	show(bar, parts.filter(part => part.bytes > 0), part => keyOf(part.classes, part.name ?? ""),
		part => make("span", part.classes), (element, part) => {
		element.style.width = `${100 * part.bytes / total}%`;
		element.title = `${part.title} ${bytes(part.bytes)}`;
		if (part.name !== undefined)
			tint(element, part.name);
	});
}

function updateLegend(legend, device, outside) {
	const free = Math.max(0, (device.total_bytes ?? 0) - device.used_bytes - outside);
	const words = [["used", "used by tenants", device.used_bytes], ["outside", "outside", outside],
		["promised", "promised", device.promised_bytes], ["free", "free", free]];

	show(legend, words, ([key]) => key, ([key]) => make("span", key, make("b"), " ", make("span")),
		(element, [, word, n]) => {
		say(find("b", element), bytes(n));
		say(find("span", element), word);
	});
}

function updateDevice(card, device, node, history) {
	const users = usersOf(node, device.uuid);
	const outside = outsideBytes(node, device.uuid);
	const taken = device.used_bytes + outside;
	const total = Math.max(device.total_bytes ?? 0, taken, 1);
	const promised = Math.max(0, Math.min(device.promised_bytes - device.used_bytes, total - taken));
	const over = device.promised_bytes - (device.total_bytes ?? Infinity);
	const past = history.device.get(device.uuid);
	const ofTenants = key => users.map(({tenant}) => ({classes: "layer", name: tenant.name,
		values: history.tenant.get(keyOf(tenant.name, device.uuid))?.[key] ?? []}));
	const [memory, time] = card.querySelectorAll(".chart");

	say(find(".index", card), String(device.index));
	say(find(".model", card), device.model);
	sayIfAny(find(".flag", card), device.lost ? "does not answer"
		: over > 0 ? `${bytes(over)} more is promised than there is` : "");
	say(find(".id", card), `${device.uuid}  ${device.pci}`);
	updateBar(find(".bar", card), [
		...users.map(({tenant, device: d}) => ({classes: "layer", name: tenant.name,
			title: tenant.name, bytes: d.used_bytes})),
		{classes: "layer outside", title: "outside of tenants", bytes: outside},
		{classes: "layer promised", title: "promised and not used", bytes: promised}], total);
	updateLegend(find(".legend", card), device, outside);
	drawStack(memory, [...ofTenants("used_bytes"),
		{classes: "layer outside", values: past?.outside_bytes ?? []}], total);
	drawStack(time, ofTenants("achieved_bp"), 10000);
	/* Of what a tenant does that nobody measures, a sum would know nothing. */
	const unknown = device.vendor === "amd" ||
		users.some(u => u.device.used_bytes && u.device.compute.achieved_1s_bp === null);
	say(find(".now", card), unknown ? "is not measured"
		: percent(sum(users.map(u => u.device.compute.achieved_1s_bp)) / 10000));
}

/* --- Tenants --------------------------------------------------------------------------------- */

function makeTenant(tenant) {
	const article = make("article", "tenant",
		make("div", "who", make("h3", "", make("i", "swatch"), make("span", "name")),
			make("p", "faint", make("span", "state"), make("span", "about"))),
		make("div", "on"));

	tint(article, tenant.name);
	return article;
}

function makeLine() {
	return make("div", "line",
		make("span", "index"),
		make("div", "memory", make("div", "bar"), make("p", "", make("b"), make("span", "faint"))),
		make("div", "share", drawing("spark", "share over the last 10 minutes"),
			make("p", "", make("b"), make("span", "faint"))),
		make("p", "refusals"));
}

function about(tenant) {
	const words = [];

	if (tenant.error)
		return tenant.error;
	words.push(count(tenant.processes.length, "process", "processes"));
	if (tenant.compute.policy !== "off")
		words.push(tenant.compute.weight ? `weight ${tenant.compute.weight}` : tenant.compute.policy);
	if (tenant.compute.priority !== "normal")
		words.push(`${tenant.compute.priority} priority`);
	if (tenant.swap?.waiting)
		words.push(`${tenant.swap.waiting} waiting for memory` +
			(tenant.swap.host_full ? ", and the host has no room for who is to leave" : ""));
	if (!tenant.devices.some(device => device.used_bytes || device.peak_bytes))
		words.push("has used no device yet");
	return words.join(", ");
}

function updateMemory(cell, name, device) {
	const bar = find(".bar", cell);
	const quota = device.quota_bytes ?? device.total_bytes ?? device.used_bytes;
	const most = Math.max(quota, device.used_bytes, 1);

	updateBar(bar, [{classes: "layer", name, title: "used", bytes: device.used_bytes}], most);
	bar.classList.toggle("full", device.used_bytes > 0.98 * most);
	bar.style.setProperty("--peak", `${100 * Math.min(1, device.peak_bytes / most)}%`);
	bar.title = `at most ${bytes(device.peak_bytes)} at once`;
	say(find("b", cell), (device.guessed_bytes ? "~" : "") + bytes(device.used_bytes));
	say(find("p .faint", cell), ` of ${bytes(quota)}${device.quota_bytes === null ? ", no quota" : ""}` +
		(device.suspended_bytes ? `, ${bytes(device.suspended_bytes)} suspended` : ""));
}

function shareWords(compute, policy) {
	/* Who asked by a weight has a part, which changes with who else works. */
	const share = compute.share_permille ?? compute.target_permille;

	if (compute.achieved_1s_bp === null)
		return ["", compute.compute_units ? count(compute.compute_units, "compute unit", "compute units")
			: "is not measured"];
	if (share === null)
		return [percent(compute.achieved_1s_bp / 10000), " no limit"];
	return [percent(compute.achieved_1s_bp / 10000),
		`${policy === "cap" ? " of" : ", share"} ${share / 10}%`];
}

function refusalWords(all, recent) {
	if (!recent)
		return `${all || "none"} refused`;
	return recent < all ? `${all} refused, ${recent} lately` : `${all} refused lately`;
}

function updateLine(row, device, tenant, node, history) {
	const past = history.tenant.get(keyOf(tenant.name, device.uuid));
	const of = node.devices.find(d => d.uuid === device.uuid);
	const recent = sum(past?.refusals ?? []);
	const refusals = find(".refusals", row);
	const share = find(".share", row);
	const [now, asked] = shareWords(device.compute, tenant.compute.policy);

	say(find(".index", row), of ? String(of.index) : "?");
	find(".index", row).title = `${of ? of.model + " " : ""}${device.uuid}`;
	updateMemory(find(".memory", row), tenant.name, device);
	drawShare(find(".spark", share), tenant.name,
		(past?.achieved_bp ?? []).map(bp => bp === null ? null : bp / 10000),
		(past?.share_permille ?? []).map(share => share === null ? null : share / 1000));
	say(find("b", share), now);
	say(find(".faint", share), asked);
	say(refusals, refusalWords(device.refusals, recent));
	refusals.title = `${recent} in the last 10 minutes`;
	refusals.classList.toggle("bad", recent > 0);
	refusals.classList.toggle("faint", !device.refusals);
}

function updateTenant(article, tenant, node, history) {
	const used = (tenant.devices ?? []).filter(d => d.used_bytes || d.peak_bytes || d.refusals);

	say(find(".name", article), tenant.name);
	say(find(".state", article), tenant.error ? "cannot be read" : tenant.state);
	find(".state", article).className = `state ${tenant.error ? "bad" : tenant.state}`;
	say(find(".about", article), about(tenant));
	show(find(".on", article), used, device => device.uuid, makeLine,
		(row, device) => updateLine(row, device, tenant, node, history));
}

/* --- Who is outside -------------------------------------------------------------------------- */

function makeOutsider() {
	return make("article", "outsider",
		make("p", "what", make("b", "bytes"), make("code")),
		make("p", "faint"));
}

function updateOutsider(article, o, node) {
	const device = node.devices.find(d => d.uuid === o.uuid);
	const words = [`pid ${o.pid}`, `user ${o.user}`];

	if (o.container)
		words.push(`container ${o.container.slice(0, 12)}`);
	words.push(device ? `device ${device.index}` : o.uuid);
	if (o.tenant)
		words.push(`tenant ${o.tenant} knows of ${bytes(o.ledger_bytes)}`);
	say(find(".bytes", article), o.driver_bytes === null ? "memory" : bytes(o.driver_bytes));
	say(find("code", article), o.command);
	say(find(".faint", article), words.join(", "));
}

/* --- The page -------------------------------------------------------------------------------- */

function outsideWords(node) {
	if (node.outside === null)
		return "Nobody has looked yet who uses the devices.";
	if (node.audit_age_ns > 5e9)
		return `Nobody has looked for ${Math.floor(node.audit_age_ns / 1e9)} seconds.`;
	return node.outside.length ? "" : "Nobody uses a device without being a tenant.";
}

function showNode(node, history) {
	const outside = node.outside ?? [];
	const refusals = sum(node.tenants.flatMap(t => (t.devices ?? []).map(d => d.refusals)));

	say(find("#sum"), [count(node.devices.length, "device", "devices"),
		count(node.tenants.length, "tenant", "tenants"), `${outside.length} outside`,
		count(refusals, "refusal", "refusals")].join(" \u00b7 "));
	say(find("#version"), `allotd ${node.allotd}, tenants of ${node.runtime_dir}`);
	show(find("#devices .cards"), node.devices, device => device.uuid, makeDevice,
		(card, device) => updateDevice(card, device, node, history));
	find("#devices .none").hidden = node.devices.length > 0;
	show(find("#outside .list"), outside, o => keyOf(o.pid, o.uuid), makeOutsider,
		(article, o) => updateOutsider(article, o, node));
	sayIfAny(find("#outside .none"), outsideWords(node));
	find("#outside").classList.toggle("any", outside.length > 0);
	show(find("#tenants .list"), node.tenants, tenant => tenant.name, makeTenant,
		(article, tenant) => updateTenant(article, tenant, node, history));
	find("#tenants .none").hidden = node.tenants.length > 0;
}

async function ask(url) {
	const answer = await fetch(url, {signal: AbortSignal.timeout(PATIENCE_MS)});

	if (!answer.ok)
		throw new Error(`it says ${answer.status}`);
	return answer.json();
}

let minutes = {device: new Map(), tenant: new Map(), due: 0};

async function readHistory() {
	const said = await ask("v1/history");
	const wait = said.age_ns === null ? 0 : said.step_ns - said.age_ns;

	return {
		device: new Map(said.devices.map(d => [d.uuid, d])),
		tenant: new Map(said.tenants.map(t => [keyOf(t.name, t.uuid), t])),
		due: Date.now() + Math.max(wait / 1e6, LOOK_MS / 2),
	};
}

let seen = null;

function sayAway(error) {
	const since = seen ? `These figures are of ${seen.toLocaleTimeString()}.` : "";

	say(find("#away"), `allotd does not answer${error.message.startsWith("it says") ? ", " + error.message
		: ""}. ${since} It is asked again every ${LOOK_MS / 1000} seconds.`);
}

async function look() {
	try {
		const node = await ask("v1/node");

		if (Date.now() >= minutes.due || document.body.classList.contains("away"))
			minutes = await readHistory();
		showNode(node, minutes);
		seen = new Date();
		document.body.classList.remove("away");
	} catch (error) {
		sayAway(error);
		document.body.classList.add("away");
	}
	find("#away").hidden = !document.body.classList.contains("away");
	say(find("#live"), document.body.classList.contains("away") ? "away" : "live");
}

/* Nobody is asked for a page that nobody sees. */
async function untilSeen() {
	while (document.hidden)
		await new Promise(turn => document.addEventListener("visibilitychange", turn, {once: true}));
}

async function watch() {
	for (;;) {
		await untilSeen();
		await look();
		await new Promise(over => setTimeout(over, LOOK_MS));
	}
}

say(find("#host"), location.host);
document.title = `allot ${location.host}`;
watch();
