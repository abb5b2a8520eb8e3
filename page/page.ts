// SPDX-License-Identifier: Apache-2.0
// The page: a state from the address, an answer of the model's thread, pictures of the answer.
import { Answer, ChipNumber, chip_text, is_good, key_name, read_answer, size_of, sentence_of, without_plan } from "./answer";
import { render_chip } from "./chip";
import { render_compare } from "./compare";
import { Controls, chip_word, kSliders } from "./controls";
import { amount, capital, download, el, quantity, svg, text_at, time_text } from "./dom";
import { Engine } from "./engine";
import { Ask, Pair, Remedy, Worth, largest_within, map_row, map_values, marks_of, network_keys, remedies_of, render_least, render_map, render_worth, result_of, value_text, worth_keys, worth_of } from "./later";
import { render_plans } from "./plans";
import { Json, State, address_of, changes_of, command_of, kMostNeurons, kVaried, neurons_of, question_of, read_address, target_of } from "./state";
import { render_step } from "./step";
import { Row, Sweep, read_rows } from "./sweep";
import { Frontier, Other, Where, frontier_of, order_of, others_of, sample_column } from "./where";

const engine = new Engine();
const app = document.getElementById("app")!;
let state = read_address(location.hash || document.documentElement.dataset.state || "");
let answer: Answer | undefined;
let raw = ""; // the answer's JSON, as the model wrote it
let others: { family: string; why: string }[] = [];
let frontier: Frontier | undefined;
let other_chips: Other[] = [];
const own_numbers = new Map<string, Map<string, ChipNumber>>(); // by chip and changes

// ---- the page's parts -----------------------------------------------------------------------------------------------

const sentence = el("p", { id: "sentence", "aria-live": "polite", role: "status" }, "The model starts\u2026");
const problem = el("p", { id: "problem", role: "alert", hidden: true });
const command = el("code", {});
const note = el("span", { id: "note", hidden: true });
const progress = el("progress", { "aria-label": "The model plans", hidden: true }); // how far it is, it does not say
const told = el("span", { class: "told", role: "status" });
const cards: HTMLElement[] = [];
const button = (text: string, click: () => void): HTMLElement => el("button", { type: "button", click }, text);

function card(id: string, title: string, ...tools: HTMLElement[]): HTMLElement {
  const body = el("div", { class: "body" });
  const save = ["SVG", "PNG"].map((form) => el("button", { type: "button", class: "svg", "aria-label": `${title} as ${form}`, click: () => save_picture(id, form === "PNG") }, form));
  const whole = el("section", { class: "card", id, "aria-labelledby": `${id}-title` },
    el("header", {}, el("h2", { id: `${id}-title` }, title), ...tools, ...(["step", "where", "chip", "worth", "map"].includes(id) ? save : [])), body);
  cards.push(whole);
  return body;
}

const wish: HTMLInputElement = el("input", { type: "text", inputmode: "decimal", id: "wish", size: 5, change: () => change({ within: wish.value.trim() === "" ? 0 : parseFloat(wish.value) > 0 ? parseFloat(wish.value) : state.within }, false) });
const wish_unit = el("span", {});
const step = card("step", "The step");
const least = card("least", "What would make it stay on the chip?", el("span", { class: "wish" }, el("label", { for: "wish" }, "\u2026take at most "), wish, wish_unit));
const compare = card("compare", "A and B");
const where_body = card("where", "Where you sit");
const chip = card("chip", "The chip");
const plans = card("plans", "Plans");
const worth = card("worth", "What 10\u202f% more of each number changes");
const map_keys: Pair = ["shared_memory.per_sm", "registers.per_sm"];
const map_selects = map_keys.map((key, i) => el("select", { "aria-label": `Number ${i === 0 ? "across" : "up"}`, change: (event) => {
  map_keys[i] = (event.target as HTMLSelectElement).value;
  fill_in(answer!.state, answer!, own_numbers.get(state.chip)!);
} }, ...kSliders.map((name) => el("option", { value: name, selected: name === key }, key_name(name)))));
const map = card("map", "What fits", el("span", { class: "wish" }, map_selects[1], " over ", map_selects[0]));
const sweep_body = card("sweep", "Sweep");
const form = el("form", { id: "controls", "aria-label": "What is asked", submit: (event) => event.preventDefault() });
const controls = new Controls(form, change, take_file);
const where = new Where(where_body, (to) => change(to, true), seek_largest);
const sweep = new Sweep(sweep_body, async (question) => JSON.parse((await engine.ask_text(state.chip, changes_of(state), JSON.stringify(question)))!), go_to, take_file, () => state);

app.append(
  el("header", { id: "top" }, el("h1", {}, "onchip"),
    el("nav", { "aria-label": "Share and save" },
      button("Copy link", () => copy(location.href.split("#")[0] + address_of(state), "link",
        location.protocol === "file:" ? " It works where this file lies at the same place; \u201cSave page\u201d makes a copy to send." : "")),
      button("Copy command", () => copy(command_of(state), "command")),
      button("Compare: keep this as A", () => change({ than: address_of(state, true) }, false)),
      button("Save answer", () => download("onchip.json", "application/json", raw)),
      button("Save chip", save_chip), button("Save page", save_page))),
  el("main", {}, form,
    el("div", { id: "answer" }, sentence, problem, el("p", { id: "command" }, command, note, progress), el("div", { id: "cards" }, ...cards))),
  told);

let telling = 0;
function tell(text: string): void {
  told.textContent = text;
  clearTimeout(telling);
  telling = window.setTimeout(() => (told.textContent = ""), 2000 + 50 * text.length);
}

async function copy(text: string, what: string, more = ""): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    tell(`The ${what} is copied.${more}`);
  } catch {
    window.prompt(capital(what), text);
  }
}

async function save_chip(): Promise<void> {
  const text = await engine.about("page_chip_file", state.chip, changes_of(state));
  if (text && !text.startsWith('{"error"')) {
    download("chip.toml", "application/toml", text);
  }
}

// This very document, which opens in this state.
function save_page(): void {
  const copied = document.documentElement.cloneNode(true) as HTMLElement;
  copied.querySelector("#app")!.replaceChildren();
  copied.dataset.state = address_of(state);
  download("onchip.html", "text/html", `<!DOCTYPE html>\n${copied.outerHTML}`);
}

// With a title, a margin, and the styles that it has here, so that it looks alike anywhere. A PNG has two pixels for each.
const kPainted = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "opacity", "font", "text-anchor"];
async function save_picture(id: string, as_png: boolean): Promise<void> {
  const shown = document.querySelector<SVGSVGElement>(`#${id} .body svg`);
  if (!shown || !answer) {
    return;
  }
  const copied = shown.cloneNode(true) as SVGElement, elements = shown.querySelectorAll("*");
  copied.querySelectorAll<SVGElement>("*").forEach((one, i) => {
    const style = getComputedStyle(elements[i]);
    kPainted.forEach((name) => one.style.setProperty(name, style.getPropertyValue(name)));
  });
  const { color, fontFamily } = getComputedStyle(document.body), paper = getComputedStyle(shown.closest(".card")!).backgroundColor;
  const title = `${document.getElementById(`${id}-title`)!.textContent}${id === "map" ? `: ${shown.getAttribute("aria-label")}` : ""}`, of = `${answer.title} on ${chip_text(answer)}`;
  const margin = 24, head = 44, { x, y, width: drawn, height: down } = shown.getBBox(), least = shown.viewBox.baseVal;
  const width = Math.ceil(Math.max(least.width - Math.min(0, x), drawn, 7.5 * of.length, 8.5 * title.length) + 2 * margin), height = Math.ceil(Math.max(least.height, y + down) + head + 2 * margin);
  const picture = new XMLSerializer().serializeToString(svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, style: `background: ${paper}; fill: ${color}; font: 13px ${fontFamily.replace(/"/g, "'")}` },
    text_at(margin, margin + 12, title, { "font-weight": 700 }), text_at(margin, margin + 30, of),
    svg("g", { transform: `translate(${margin - Math.min(0, x)} ${margin + head})` }, ...copied.childNodes)));
  if (!as_png) {
    download(`onchip-${id}.svg`, "image/svg+xml", picture);
    return;
  }
  const image = new Image(), canvas = el("canvas", { width: 2 * width, height: 2 * height }), drawing = canvas.getContext("2d")!;
  image.src = `data:image/svg+xml,${encodeURIComponent(picture)}`;
  await image.decode();
  drawing.fillStyle = paper;
  drawing.fillRect(0, 0, canvas.width, canvas.height);
  drawing.drawImage(image, 0, 0, canvas.width, canvas.height);
  canvas.toBlob((blob) => blob && download(`onchip-${id}.png`, "image/png", blob));
}

// The largest network of a tier; of a sparse step with rows of their expected lengths, as the edges have them.
async function seek_largest(tier: string, column: number): Promise<void> {
  const train = state.workload === "train", to = train ? { batch: column } : { density: column };
  const { network: { hidden, ...network }, ...question } = question_of({ ...state, ...to, weights: "" }, "fit", true);
  tell("The largest is sought\u2026");
  const json = JSON.parse((await engine.ask_text(state.chip, changes_of(state), JSON.stringify({ ...question, network, ...(train ? {} : { constraints: { tier } }) })))!);
  if (json.error !== undefined) {
    tell(capital(json.error));
  } else {
    change({ ...to, hidden: json.network.hidden }, false);
  }
}

// A row of a sweep, in the words of an address. What it does not say is as usual, the chip as it is here.
function go_to(row: Row): void {
  const numbers = answer?.numbers, is_here = row.chip === undefined || row.chip === answer?.chip;
  const words = Object.entries(row).filter(([, value]) => value !== null && value !== "").map(([key, value]) =>
    key.includes(".") ? `set=${key}=${encodeURIComponent(quantity(Number(value), numbers?.get(key)?.unit ?? ""))}`
      : `${key}=${encodeURIComponent(key === "chip" ? (is_here ? state.chip : chip_word(String(value))) : String(value))}`);
  const to = read_address(`${words.join("&")}&family=`);
  change({ ...to, set: new Map([...(is_here ? state.set : []), ...to.set]), than: state.than }, false);
}

// ---- from a change to what is shown ---------------------------------------------------------------------------------

// While something moves the address is replaced, so that one step back leaves all of the movement.
let is_first_of_movement = true;
function change(to: Partial<State>, is_moving: boolean): void {
  const is_other_network = to.hidden !== undefined || to.density !== undefined || to.workload !== undefined;
  state = { ...state, ...(is_other_network ? { weights: "" } : {}), ...(to.workload && to.workload !== state.workload ? { than: "" } : {}), ...to };
  if (state.than === address_of(state, true)) {
    tell("It is A. Change anything to compare.");
  }
  const address = address_of(state);
  if (is_moving && !is_first_of_movement) {
    history.replaceState(null, "", address);
  } else if (address !== location.hash) {
    history.pushState(null, "", address);
  }
  is_first_of_movement = !is_moving;
  update();
}

// A click into a number selects all of it, a second one a place in it.
let entered: EventTarget | null = null;
addEventListener("pointerdown", ({ target }) => (entered = target === document.activeElement ? null : target));
addEventListener("click", ({ target }) => target === entered && target instanceof HTMLInputElement && target.inputMode === "decimal" && target.select());
addEventListener("pointerup", () => (is_first_of_movement = true));
addEventListener("popstate", () => {
  state = read_address(location.hash);
  update();
});

async function numbers_of(name: string, changes: string[] = []): Promise<Map<string, ChipNumber> | null> {
  const key = [name, ...changes].join("\n"), known = own_numbers.get(key);
  if (known) {
    return known;
  }
  const json = JSON.parse((await engine.about("page_numbers", name, changes)) ?? '{"error": ""}');
  if (json.error !== undefined) {
    refuse(json.error);
    return null;
  }
  const numbers = new Map<string, ChipNumber>(json.keys.map((number: ChipNumber) => [number.key, number]));
  own_numbers.set(key, numbers);
  return numbers;
}

function refuse(text: string): void {
  problem.textContent = capital(text);
  problem.hidden = text === "";
}

let asked = 0;
async function update(): Promise<void> {
  const mine = ++asked;
  controls.update(state);
  command.textContent = command_of(state);
  wish.value = state.within > 0 ? String(state.within) : "";
  const numbers = await numbers_of(state.chip);
  if (mine !== asked || !numbers) {
    return;
  }
  controls.set_numbers(numbers);
  const of = engine.has_weights(state.weights) ? state : { ...state, weights: "" };
  clearTimeout(exact_timer);
  document.body.classList.add("waiting");
  old(true, "step", "chip", "plans", "least", "compare", "worth", "map");
  clearInterval(progress_timer);
  progress.hidden = of.workload !== "layers";
  if (of.workload === "layers") {
    if (neurons_of(of.network) > kMostNeurons) {
      refuse(`${of.network} has more than ${amount(kMostNeurons, "")} neurons in all layers, the most that the page plans; the command has no such limit`);
      progress.hidden = true;
      return;
    }
    const start = performance.now();
    const say = (): void => {
      note.textContent = `The blocks of each layer are sought, and then a plan: ${Math.round((performance.now() - start) / 1000)} s`;
      note.hidden = false;
    };
    say();
    progress_timer = window.setInterval(say, 500);
  }
  const is_quick = of.workload === "step" && of.weights === "" && exact !== key_of(of);
  if (!(await ask_and_show(of, numbers, mine, is_quick)) || !answer) {
    return;
  }
  if (is_quick) {
    exact_timer = window.setTimeout(async () => {
      if (await ask_and_show(of, numbers, mine, false)) {
        exact = key_of(of);
        fill_in(of, answer!, numbers);
      }
    }, 300);
  } else {
    fill_in(of, answer, numbers);
  }
}

let progress_timer = 0;
// The network whose mask the thread knows. Until it does, and while something moves, rows have their expected lengths.
let exact = "";
let exact_timer = 0;
const key_of = ({ cell, hidden, density, precision }: State): string => JSON.stringify([cell, hidden, density, precision, engine.now.starts]);

// What still shows the answer before is dimmed.
const old = (is: boolean, ...ids: string[]): void => ids.forEach((id) => document.getElementById(id)!.classList.toggle("old", is));

// False where it was overtaken, or refused. Where the answer's weights do not stay on the chip, a slower plan's may.
async function ask_and_show(of: State, numbers: Map<string, ChipNumber>, mine: number, quickly: boolean): Promise<boolean> {
  const ask = (question: object): Promise<string | null> => engine.ask(of.chip, changes_of(of), question, of.workload === "layers" ? 4000 : 150);
  const text = await ask(question_of(of, "rank", quickly)), json = JSON.parse(text ?? "{}");
  const kept = mine === asked && of.workload === "step" && json.fits === false && !quickly
    ? await ask({ ...question_of(of, "predict"), constraints: { tier: "shared_memory" } }) : "{}";
  if (text === null || kept === null || mine !== asked) {
    return false;
  }
  clearInterval(progress_timer);
  progress.hidden = true;
  if (json.error !== undefined) {
    refuse(json.error);
    sentence.textContent = "No answer.";
    sentence.classList.remove("checking");
    return false;
  }
  const changed = of.set.size > 0 ? await numbers_of(of.chip, changes_of(of)) : numbers;
  if (mine !== asked || !changed) {
    return false;
  }
  refuse(state.weights !== of.weights ? `An address holds no files: drop ${state.weights} on the page. This is a generated mask's answer.` : "");
  if (of.weights !== "") {
    state = { ...state, ...size_of(json) };
    controls.update(state);
  }
  document.body.classList.remove("waiting");
  note.textContent = "A quick estimate; the exact answer follows.";
  note.hidden = !quickly;
  raw = text;
  others = without_plan(json);
  answer = read_answer(json, of, changed, quickly, JSON.parse(kept));
  show();
  return true;
}

function show(): void {
  if (!answer) {
    return;
  }
  sentence.textContent = sentence_of(answer);
  sentence.dataset.fits = String(is_good(answer));
  sentence.classList.toggle("checking", answer.is_quick);
  old(false, "step", "chip", "plans");
  document.title = `${answer.title} on ${answer.chip} \u2013 onchip`;
  document.querySelector("#step-title")!.textContent = { step: "The step", train: "The iteration", layers: "All images" }[state.workload];
  wish_unit.textContent = ` ${state.workload === "layers" ? "ms" : "\u00b5s"}`;
  render_step(step, answer);
  render_chip(chip, answer);
  render_plans(plans, answer, others, (family) => change({ family }, false));
  place();
}

// The frontiers that are known stay while the point moves between them.
function place(): void {
  const has_where = state.workload !== "layers";
  document.getElementById("where")!.hidden = !has_where;
  document.getElementById("compare")!.hidden = state.than === "";
  if (has_where && answer) {
    const wanted = frontier_of(state);
    frontier = wanted.key === frontier?.key ? frontier : wanted;
    const wanted_others = others_of(state);
    if (wanted_others.some((one, i) => one.frontier.key !== other_chips[i]?.frontier.key)) {
      other_chips = wanted_others;
    }
    where.render(state, frontier, other_chips, answer.chip);
  }
}

// ---- what is filled in ----------------------------------------------------------------------------------------------

let filling = 0;
let timer = 0;
function fill_in(of: State, to: Answer, own: Map<string, ChipNumber>): void {
  const mine = ++filling;
  clearTimeout(timer);
  engine.forget_later();
  controls.mark(new Map());
  // A moment later: while something moves these questions would be overtaken at once.
  timer = window.setTimeout(() => fill_all(mine, of, to, own), 120);
}

const kOvertaken = Symbol("overtaken"); // what a question throws whose answer nobody waits for any more
type AskOf = (changes: string[], question: Json) => Promise<Json>;
type AskChip = (chip: string, changes: string[], question: Json) => Promise<Json>;
async function fill_all(mine: number, of: State, to: Answer, own: Map<string, ChipNumber>): Promise<void> {
  const ask_in = (lane: number): AskChip => async (chip_name, changes, question) => {
    const text = mine === filling ? await engine.ask_later(lane, chip_name, changes, question) : null;
    if (text === null || mine !== filling) {
      throw kOvertaken;
    }
    return JSON.parse(text);
  };
  const ask: AskOf = (changes, question) => ask_in(1)(of.chip, changes, question);
  try {
    await Promise.all([
      fill_compare(of, to, ask_in(0)), fill_where(of, to, ask_in(0)),
      fill_least(of, to, ask).then(() => fill_worth(of, to, own, ask)).then(() => fill_map(of, to, (question) => ask(changes_of(of), question))),
    ]);
    document.body.dataset.filled = String(mine);
  } catch (problem) {
    if (problem !== kOvertaken) {
      throw problem;
    }
  }
}

async function fill_compare(of: State, to: Answer, ask: AskChip): Promise<void> {
  const than = read_address(of.than), numbers = of.than === "" ? null : await numbers_of(than.chip);
  if (!numbers) {
    return;
  }
  const json = await ask(than.chip, changes_of(than), question_of(than, "rank"));
  if (json.error === undefined) {
    old(false, "compare");
    render_compare(compare, read_answer(json, than, numbers), to, () => change({ ...than, than: address_of(of, true) }, false), () => change({ than: "" }, false));
  }
}

async function fill_where(of: State, to: Answer, ask_chip: AskChip): Promise<void> {
  if (of.workload === "layers" || !frontier) {
    return;
  }
  const own = { chip: of.chip, frontier, changes: changes_of(of) }, all = other_chips;
  for (const { chip, frontier: one, changes } of [own, ...all.map((other) => ({ ...other, changes: [] }))]) {
    for (const column of [...order_of(one.columns)].filter((column) => !one.largest.has(column))) {
      await sample_column(one, of, column, (question) => ask_chip(chip, changes, question));
      where.render(of, own.frontier, all, to.chip);
    }
  }
}

async function fill_least(of: State, to: Answer, ask_changed: AskOf): Promise<void> {
  const ask: Ask = (question) => ask_changed(changes_of(of), question);
  const found: Remedy[] = [], on_chip = of.workload === "step" ? "makes room for all weights on the chip" : "makes it fit on the chip";
  const fastest = Math.min(...to.plans.flatMap(({ floor, time }) => [floor ?? Infinity, time ?? Infinity]));
  let intro = to.fits ? "It stays on the chip. This little of each number alone would still do." : `Each of these alone ${on_chip}.`;
  let problem_text = "";
  const draw = (searched: string): void => {
    old(false, "least");
    document.querySelector("#least-title")!.textContent = of.within > 0 ? "What would make it\u2026" : `${to.fits ? "How little would still keep it" : "What would make it stay"} on the chip?`;
    render_least(least, to, found, searched === "" && found.length === 0 ? problem_text || "No single change within the possible numbers." : intro, searched, to.fits && of.within === 0, (remedy) => change(changed_by(remedy), false));
  };
  const changed_by = ({ key, to: value }: Remedy): Partial<State> =>
    network_keys(state).includes(key) ? { [key]: value } : { set: new Map([...of.set, [key, value_text(key, value, to.numbers)]]) };
  if (of.within > 0) {
    const wished = time_text(of.within, to.unit), keys = [...network_keys(of), ...kVaried];
    intro = `${of.within < fastest && to.plans.some(({ floor }) => floor) ? `${wished} is below the floor of ${time_text(fastest, to.unit)} on this chip: no plan reaches it; a smaller network or another chip does. ` : ""}${(to.plans[0]?.time ?? Infinity) <= of.within ? "It does so already. " : ""}With each of these alone it takes at most ${wished}.`;
    for (const [i, key] of keys.entries()) {
      draw(`Searching ${key_name(key)}: number ${i + 1} of ${keys.length}\u2026`);
      const json = network_keys(of).includes(key) ? await largest_within(key, of, ask)
        : await ask({ ...question_of(of, "what_if"), target: [target_of(of)], vary: [key] });
      problem_text = json.error ? capital(json.error) : problem_text;
      found.push(...remedies_of(json));
    }
    draw("");
    return;
  }
  draw("Searching the smallest change of each number\u2026");
  const json = await ask(of.weights !== "" && to.fits ? { ...question_of(of, "what_if"), vary: ["sm.count", "registers.per_sm", "shared_memory.per_sm"] }
    : to.fits && of.workload !== "layers" ? { ...question_of(of, "what_if"), target: [`hidden=${of.hidden}`] } : question_of(of, "fit"));
  problem_text = json.error ? capital(json.error) : "";
  found.push(...remedies_of(json));
  controls.mark(marks_of(found, to.numbers, to.fits));
  draw("");
  for (const remedy of of.workload === "layers" || of.weights !== "" ? [] : found.filter(({ result, time }) => result && time === null)) {
    const changed = { ...of, ...changed_by(remedy) };
    remedy.result!.textContent = result_of(await ask_changed(changes_of(changed), question_of(changed, "fit")), of, to.unit);
  }
}

async function fill_worth(of: State, to: Answer, own: Map<string, ChipNumber>, ask: AskOf): Promise<void> {
  const time = to.plans[0]?.time ?? null;
  const found: Worth[] = [];
  const keys = time === null ? [] : worth_keys(own, of);
  old(false, "worth");
  render_worth(worth, to, found, 0, keys.length);
  for (const [i, key] of keys.entries()) {
    const one = await worth_of(key, of, time!, ask);
    found.push(...(one ? [one] : []));
    render_worth(worth, to, found, i + 1, keys.length);
  }
}

async function fill_map(of: State, to: Answer, ask: Ask): Promise<void> {
  const [across, up] = map_keys, numbers = to.numbers, rows = new Map<number, string[]>();
  const put = (values: Map<string, number>): void =>
    change({ set: new Map([...state.set, ...[...values].map(([key, value]): [string, string] => [key, quantity(value, numbers.get(key)!.unit)])]) }, false);
  const values = map_values(numbers.get(across)!), lines = map_values(numbers.get(up)!);
  const middle = Math.floor(lines.length / 2); // the chip's own number first, then what is near
  for (const line of [...lines].sort((a, b) => Math.abs(lines.indexOf(a) - middle) - Math.abs(lines.indexOf(b) - middle))) {
    render_map(map, map_keys, numbers, rows, put);
    old(false, "map");
    const found = await map_row([across, up], line, values, numbers, { ...of, weights: "" }, ask);
    if (line === numbers.get(up)!.value) {
      found[values.indexOf(numbers.get(across)!.value)] = to.fits ? "fits" : "lacks"; // not quickly, as all others
    }
    rows.set(line, found);
  }
  render_map(map, map_keys, numbers, rows, put);
}

let width = 0;
new ResizeObserver(() => {
  if (Math.abs(step.clientWidth - width) > 1) {
    width = step.clientWidth;
    show();
  }
}).observe(step);

// A chip file, recurrent weights or rows of a sweep, which are dropped on the page or chosen in the form.
async function take_file(file: File): Promise<void> {
  if (/\.toml$/i.test(file.name)) {
    change({ chip: await file.text(), set: new Map() }, false);
  } else if (/\.(mtx|smtx|npy|safetensors)$/i.test(file.name)) {
    engine.take_weights(file.name, await file.arrayBuffer());
    change({ workload: "step", weights: file.name }, false);
  } else if (/\.(csv|jsonl)$/i.test(file.name)) {
    try {
      sweep.take(read_rows(await file.text()));
    } catch (error) {
      refuse(`${file.name}: ${error}`);
    }
  } else {
    refuse(`${file.name}: expected a chip file (.toml), weights (.mtx, .smtx, .npy, .safetensors) or rows of a sweep (.csv, .jsonl)`);
  }
}

addEventListener("dragover", (event) => event.preventDefault());
addEventListener("drop", (event) => {
  event.preventDefault();
  [...(event.dataTransfer?.files ?? [])].forEach(take_file);
});

// After the first answer, because all chips' files are read for it.
Promise.race([update(), new Promise((done) => setTimeout(done, 1500))]).then(async () => controls.set_chips(JSON.parse((await engine.chips()) ?? "[]")));

// For whoever scripts the page, and its tests: questions as in model/ask/ask.hpp.
Object.assign(globalThis, { onchip: { ask: engine.ask_text, touch: () => history.replaceState(null, "", address_of(state)) } });
