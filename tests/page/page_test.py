# SPDX-License-Identifier: Apache-2.0
"""The page in Chromium, from disk: tests/page/run BUILD. Answers are compared with the library of the same build."""
import gzip
import json
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import time
import unittest

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

SOURCE = pathlib.Path(__file__).parents[2]
BUILD = pathlib.Path(os.environ["ONCHIP_BUILD"]).resolve()
sys.path[:0] = [str(SOURCE / "python"), str(SOURCE / "tests/page")]
os.environ.setdefault("ONCHIP_LIBRARY", str(BUILD / "libonchip.so"))
import onchip  # noqa: E402
import onchip.api  # noqa: E402
import questions  # noqa: E402

PAGE = pathlib.Path(os.environ.get("ONCHIP_PAGE", BUILD / "page")) / "onchip.html"
COUNT = int(os.environ.get("ONCHIP_QUESTIONS", "200"))
STEP = "#chip=h200&cell=lstm&hidden=2048&batch=4&density=10%25&precision=fp16"
# What the answer took to be found differs.
SECONDS = re.compile(r'"seconds": [-+.e0-9]+')


def native(chip, changes, question):
    try:
        asked = onchip.Chip(chip)
        for change in changes:
            asked.set(change)
        return onchip.api.ask_text(asked, question)
    except onchip.ApiError as error:
        return json.dumps({"error": str(error)})


# How long each move of a slider takes to a new sentence, and the longest task beside.
WATCH = """() => {
  window.moves = []; window.longest = 0;
  let moved_at = 0;
  document.querySelector("#controls").addEventListener("input", () => (moved_at = performance.now()), true);
  new PerformanceObserver((list) => list.getEntries().forEach(({duration}) => (longest = Math.max(longest, duration)))).observe({type: "longtask"});
  new MutationObserver(() => {
    if (moved_at > 0) {
      moves.push(performance.now() - moved_at);
      moved_at = 0;
    }
  }).observe(document.querySelector("#sentence"), {childList: true, characterData: true, subtree: true});
}"""


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.playwright = sync_playwright().start()
        cls.browser = cls.playwright.chromium.launch(executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"),
                                                     args=["--no-sandbox"])

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.playwright.stop()

    def open(self, address=STEP, width=1600, scheme="light", page=PAGE):
        context = self.browser.new_context(viewport={"width": width, "height": 1000}, color_scheme=scheme)
        self.addCleanup(context.close)
        tab = context.new_page()
        self.problems, self.requests = [], []
        tab.on("console", lambda message: self.problems.append(message.text))
        tab.on("pageerror", lambda error: self.problems.append(str(error)))
        tab.on("request", lambda request: self.requests.append(request.url))
        tab.goto(page.resolve().as_uri() + address)
        self.settled(tab)
        return tab

    def settled(self, tab, text=""):
        """Waits for a sentence that is an answer, and has this in it."""
        for _ in range(1200):
            sentence = tab.locator("#sentence").inner_text()
            if "model starts" not in sentence and text in sentence:
                return sentence
            time.sleep(0.05)
        self.fail(f"no sentence with '{text}', but: {sentence}")

    def tearDown(self):
        self.assertEqual(getattr(self, "problems", []), [])
        self.assertEqual([url for url in getattr(self, "requests", []) if not url.startswith(("file:", "blob:"))], [])

    def asked(self, tab, drawn):
        return [tab.evaluate("([chip, changes, question]) => onchip.ask(chip, changes, question)", list(one)) for one in drawn]

    def test_answers_are_those_of_the_library_and_of_the_commands(self):
        tab = self.open()
        drawn = questions.draw(COUNT, seed=46)
        refused = by_command = 0
        for question, answer in zip(drawn, self.asked(tab, drawn)):
            expected = native(*question)
            refused += expected.startswith('{"error"')
            if expected.startswith('{"error"'):
                self.assertEqual(json.loads(answer), json.loads(expected), question)
            else:
                self.assertEqual(SECONDS.sub("", answer), SECONDS.sub("", expected), question)
            if words := questions.command(*question):
                by_command += 1
                self.is_answer_of_command(json.loads(answer), answer, words)
        print(f"{COUNT} questions, {refused} of them refused: answers are equal byte for byte; {by_command} are those of commands, too")
        self.assertLess(refused, COUNT // 3)
        self.assertGreater(by_command, COUNT // 2)

    def is_answer_of_command(self, read, answer, words):
        done = subprocess.run([BUILD / "onchip", *words], capture_output=True, text=True)
        if "error" in read:
            self.assertIn(read["error"], done.stderr, words)
        elif words[0] == "sweep":  # which has the chip and its changes as they were typed
            of_command = [json.loads(line) for line in done.stdout.splitlines()]
            self.assertEqual(read["rows"], [{name: row[name] for name in other} | {"chip": other["chip"]} for other, row in zip(read["rows"], of_command, strict=True)], words)
        else:
            self.assertEqual(SECONDS.sub("", answer), SECONDS.sub("", done.stdout), words)

    def test_malformed_questions_are_refused_in_the_same_words(self):
        tab = self.open()
        drawn = questions.malformed(COUNT, seed=64)
        for question, answer in zip(drawn, self.asked(tab, drawn)):
            expected = native(*question)
            if expected.startswith('{"error"'):
                self.assertEqual(json.loads(answer), json.loads(expected), question)

    def test_an_address_is_read_and_written_alike(self):
        for address in (STEP, "#chip=a100&cell=gru&hidden=1000&batch=1&density=25%25&precision=fp32&set=shared_memory.per_sm=200%20KiB&set=sm.count=120",
                        "#mode=train&chip=h100_sxm&cell=lstm&hidden=1024&batch=64&density=100%25&precision=fp16&layers=2&steps=100"):
            tab = self.open(address)
            tab.evaluate("() => onchip.touch()")
            self.assertEqual(tab.evaluate("() => location.hash").replace("+", "%20"), address)

    def test_back_and_forward_go_through_the_changes(self):
        tab = self.open()
        tab.get_by_label("gru", exact=True).check(force=True)
        self.settled(tab, "GRU")
        tab.go_back()
        self.settled(tab, "LSTM")
        tab.go_forward()
        self.settled(tab, "GRU")
        tab.reload()
        self.settled(tab, "GRU")

    def test_what_does_not_fit_says_what_it_needs_and_one_click_makes_it_fit(self):
        tab = self.open("#chip=h200&cell=lstm&hidden=4096&density=50%25&batch=4")
        remedy = tab.locator(".remedy").first
        remedy.wait_for(timeout=60000)
        self.assertEqual(tab.locator("#sentence").get_attribute("data-fits"), "false")
        remedy.click()
        self.assertRegex(self.exact(tab, " on the H200: "), "(stays|fits) on")
        self.assertEqual(tab.locator("#sentence").get_attribute("data-fits"), "true")

    def exact(self, tab, text=""):
        """Waits for a sentence that is no quick estimate's."""
        tab.wait_for_function("text => !document.querySelector('#sentence.checking') && document.querySelector('#sentence').textContent.includes(text)", arg=text, timeout=60000)
        return tab.locator("#sentence").inner_text()

    def test_least_change_keeps_its_promise(self):
        tab = self.open("#chip=h200&cell=lstm&hidden=7168&density=10%25&batch=4")
        tab.locator("#least .caption", has_text="makes room for all weights on the chip").wait_for(timeout=60000)
        card = tab.locator("#least section", has_text="Change the chip").locator(".remedy", has_text="SMs")
        card.locator("text=all on the chip").wait_for(timeout=60000)
        promised = re.search(r"([\d.]+) \S+ all on the chip, ([\d.]+)", card.inner_text().replace("\u00a0", " ")).groups()
        sms = re.search(r"(\d+) SMs", card.inner_text())[1]
        card.click()
        sentence = self.exact(tab, f"fits on the H200 with {sms} SMs").replace("\u00a0", " ")
        self.assertEqual(tab.locator("#sentence").get_attribute("data-fits"), "true")
        fit = json.loads(native("h200", [f"sm.count={sms}"], json.dumps({"ask": "fit", "network": {"cell": "lstm", "hidden": 7168, "batch": 4, "density": 0.1, "precision": "fp16"}})))
        for time_, promise in zip((fit["step_us"], fit["instead"]["step_us"]), promised):
            self.assertIn(f"{promise} \u00b5s", sentence)
            self.assertAlmostEqual(float(promise), time_, delta=0.006 * time_)

    def test_a_typed_number_is_announced_where_it_is_none_or_out_of_range(self):
        tab = self.open()
        typed = tab.get_by_label("Hidden size, typed")
        typed.click()
        self.assertEqual(tab.evaluate("() => getSelection().toString()"), "2048")
        said = tab.locator(".slider", has=typed).locator(".said")
        for text, shown, told in (("abc", "2048", "expected a number"), ("99999", "16384", "at most 16384"), ("1", "64", "at least 64"), ("1024.2", "1024", "")):
            typed.fill(text)
            typed.press("Enter")
            self.assertEqual([typed.input_value(), said.inner_text()], [shown, told])
        self.exact(tab, "H=1024")
        self.assertIn("hidden=1024", tab.evaluate("() => location.hash"))

    def test_a_plan_is_shown_everywhere(self):
        tab = self.open()
        tab.locator("button.plan", has_text="cuBLAS").click()
        self.settled(tab, "cuBLAS")
        self.assertIn("family=cublas", tab.evaluate("() => location.hash"))

    def test_any_number_of_the_chip_is_found(self):
        tab = self.open()
        search = tab.locator("#search")
        search.fill("exchange.signal")
        search.press("Enter")
        tab.get_by_label("exchange.signal", exact=True).wait_for()

    def test_sliders_are_moved_by_keys(self):
        tab = self.open()
        for name, expected in (("Batch", "B=5"), ("Hidden size", "H=2080"), ("Density", "11")):
            tab.get_by_label(name, exact=True).press("ArrowRight")
            self.settled(tab, expected)

    def test_the_point_is_dragged(self):
        tab = self.open()
        tab.locator(".remedy").first.wait_for(timeout=60000)  # the list above it has its height
        tab.locator("svg.where").scroll_into_view_if_needed()
        box = tab.locator("svg.where").bounding_box()
        tab.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 0.6 * box["height"])
        tab.mouse.down()
        tab.mouse.move(box["x"] + 0.4 * box["width"], box["y"] + 0.5 * box["height"], steps=5)
        tab.mouse.up()
        self.assertNotIn("hidden=2048", tab.evaluate("() => location.hash"))
        self.settled(tab, "H=" + re.search(r"hidden=(\d+)", tab.evaluate("() => location.hash"))[1])

    def test_a_wished_time_names_what_takes_no_longer(self):
        tab = self.open()
        tab.locator("#wish").fill("1.2")
        tab.locator("#wish").press("Enter")
        tab.locator("#least p", has_text="takes at most 1.2").wait_for(timeout=90000)
        self.assertIn("within=1.2", tab.evaluate("() => location.hash"))

    def test_a_time_below_the_floor_is_refused_and_networks_that_reach_it_are_found(self):
        network = {"cell": "lstm", "hidden": 5632, "batch": 4, "density": 0.1, "precision": "fp16"}
        of = lambda **changed: json.loads(native("h200", [], json.dumps({"ask": "predict", "network": {**network, **changed}})))  # noqa: E731
        within = round(0.97 * of()["floor_us"], 3)
        tab = self.open(f"{STEP.replace('2048', '5632')}&within={within}")
        tab.locator("#least .caption", has_text="is below the floor of").wait_for(timeout=60000)
        tab.locator("#least .pending", has_text="Searching SMs").wait_for(timeout=90000)
        cards = tab.locator("#least section", has_text="Change the network").locator(".to").all_inner_texts()
        for changed in ({"hidden": next(int(text.split()[0]) for text in cards if "hidden units" in text)},
                        {"density": next(float(text.split("\u202f")[0]) / 100 for text in cards if "density" in text)}):
            self.assertLessEqual(of(**changed)["step_us"], within, changed)
        command = tab.locator("#command code").inner_text()
        self.assertIn("onchip what-if --chip h200", command)
        self.assertIn(f"--target 'step_us<={within}'", command)

    def test_the_link_is_copied_whole(self):
        tab = self.open()
        tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
        tab.get_by_role("button", name="Copy link").click()
        tab.locator(".told", has_text="Save page").wait_for()
        self.assertEqual(tab.evaluate("() => navigator.clipboard.readText()"), tab.evaluate("() => location.href"))

    def test_weights_of_ones_own_are_planned_here(self):
        tab = self.open()
        r, hidden = random.Random(1), 512
        places = r.sample(range(4 * hidden * hidden), 80000)
        lines = "".join(f"{place // hidden + 1} {place % hidden + 1}\n" for place in places)
        text = f"%%MatrixMarket matrix coordinate pattern general\n{4 * hidden} {hidden} {len(places)}\n{lines}"
        tab.locator("#weights").set_input_files({"name": "mine.mtx", "mimeType": "text/plain", "buffer": text.encode()})
        self.assertIn(f"H={hidden}", self.settled(tab, "mine.mtx"))
        self.assertIn("--weights mine.mtx", tab.locator("#command").inner_text())
        self.assertNotIn("--density", tab.locator("#command").inner_text())
        tab.get_by_role("button", name="generate a mask").click()
        self.settled(tab, f"LSTM H={hidden}")

    def test_two_answers_stand_side_by_side(self):
        tab = self.open()
        tab.get_by_role("button", name="Compare: keep this as A").click()
        tab.get_by_label("gru", exact=True).check(force=True)
        self.settled(tab, "GRU")
        tab.locator("#compare table").wait_for(timeout=60000)
        tab.get_by_role("button", name="Swap A and B").click()
        self.settled(tab, "LSTM")

    def test_the_saved_page_opens_in_its_state(self):
        tab = self.open(STEP.replace("2048", "1024"))
        with tab.expect_download() as saved:
            tab.get_by_role("button", name="Save page").click()
        copy = BUILD / "page_copy.html"
        saved.value.save_as(copy)
        self.addCleanup(copy.unlink)
        self.assertIn("H=1024", self.settled(self.open("", page=copy)))

    def test_training_and_deep_networks_are_answered(self):
        tab = self.open("#mode=train")
        self.assertIn("an iteration", self.settled(tab))
        tab.get_by_label("Sparse deep net").check(force=True)
        self.settled(tab, "for all images")

    def saved(self, tab, button):
        with tab.expect_download() as download:
            tab.get_by_role("button", name=button, exact=True).press("Enter")
        return pathlib.Path(download.value.path()).read_bytes()

    def test_pictures_are_saved(self):
        tab = self.open()
        tab.locator("svg.where .frontier").first.wait_for(timeout=60000)
        for part in ("The step", "Where you sit", "The chip"):
            svg = self.saved(tab, f"{part} as SVG").decode()
            width, height = (int(float(number)) for number in re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg).groups())
            self.assertNotIn("var(--", re.sub(r'(fill|stroke)="var[^"]*"', "", svg))
            png = self.saved(tab, f"{part} as PNG")
            self.assertEqual(png[:8], b"\x89PNG\r\n\x1a\n")
            of_png = [int.from_bytes(png[at:at + 4], "big") for at in (16, 20)]
            self.assertEqual(of_png, [2 * width, 2 * height], part)

    def test_memories_are_filled_by_what_the_answer_says(self):
        tab = self.open()
        answer = json.loads(native("h200", [], json.dumps({"ask": "rank", "network": {
            "cell": "lstm", "hidden": 2048, "batch": 4, "density": 0.1, "precision": "fp16"}})))
        shared = next(one for one in answer["plans"][0]["resources"] if one["name"] == "shared_memory")
        staging = shared["used"] - shared["weights"] - shared["state"]
        tab.locator("#note").wait_for(state="hidden")
        chip = " ".join(tab.locator("#chip text").all_text_contents())
        for name, value in (("state", shared["state"]), ("staging", staging), ("free", shared["available"] - shared["used"])):
            self.assertRegex(chip, name + r" [\d.]+ KiB")
            shown = [float(number) for number in re.findall(name + r" ([\d.]+) KiB", chip)]
            self.assertTrue(any(abs(number - value / 1024) <= 0.006 * number + 0.01 for number in shown), f"{name}: {value / 1024} of {shown}")

    def test_the_largest_that_fits_is_one_click_away(self):
        tab = self.open()
        tab.get_by_role("button", name="all in registers").press("Enter")
        tab.wait_for_function("() => !location.hash.includes('hidden=2048')", timeout=90000)
        largest = int(re.search(r"hidden=(\d+)", tab.evaluate("() => location.hash"))[1])
        fits = [json.loads(native("h200", [], json.dumps({"ask": "predict", "rows": "expected", "constraints": {"tier": "registers"}, "network": {
            "cell": "lstm", "hidden": hidden, "batch": 4, "density": 0.1, "precision": "fp16"}})))["fits"] for hidden in (largest, largest + 32)]
        self.assertEqual(fits, [True, False])

    def test_a_frontier_is_clicked(self):
        tab = self.open()
        tab.wait_for_function("() => document.querySelector('svg.where .reached:last-child')?.getAttribute('d').split('L').length >= 12", timeout=90000)
        tab.locator("svg.where").scroll_into_view_if_needed()
        edge = tab.locator("svg.where .reached").last
        at = edge.evaluate("path => { const point = path.getPointAtLength(path.getTotalLength() / 2).matrixTransform(path.getScreenCTM()); return [point.x, point.y]; }")
        tab.mouse.click(*at)
        tab.wait_for_function("() => !location.hash.includes('hidden=2048')", timeout=90000)
        self.settled(tab, "stays on the H200")

    def test_a_term_says_what_it_is_and_its_formula(self):
        tab = self.open()
        for term in tab.locator(".terms li").all():
            self.assertFalse(term.locator(".more").is_visible())
            term.focus()
            self.assertRegex(term.locator(".more").inner_text(), r"(?s)\. Less with .+\.\n?.*[\u00d7(]")

    def test_the_map_says_what_fits_as_the_model_does(self):
        tab = self.open("#chip=h200&cell=lstm&hidden=6112&batch=4&density=10%25")
        tab.wait_for_function("() => document.querySelectorAll('#map .cell.space').length === 0 && document.querySelectorAll('#map .cell').length > 40", timeout=120000)
        cells = [(one.locator("title").text_content(), one.get_attribute("class").split()[1]) for one in tab.locator("#map .cell:has(title)").all()]
        self.assertGreater(len({what for _, what in cells}), 1)
        for title, what in cells[::9]:
            values = [value.strip() for value in title.split(",")]
            row = json.loads(native("h200", [], json.dumps({"ask": "sweep", "rows": "expected", "tier": "shared_memory", "axis": [{"shared_memory.per_sm": [values[0]]}, {"registers.per_sm": [values[1]]}],
                                                            "network": {"cell": "lstm", "hidden": 6112, "batch": 4, "density": 0.1, "precision": "fp16"}})))["rows"][0]
            self.assertEqual(what, "fits" if row["fits"] else "lacks", title)
        tab.get_by_label("Number up").select_option("sm.count")
        tab.locator("#map svg[aria-label^='SMs over']").wait_for(timeout=60000)

    def test_a_sweep_is_run_and_its_rows_bring_the_controls(self):
        tab = self.open()
        tab.get_by_label("An axis").fill("hidden=512:1536:512")
        tab.get_by_label("Another axis").fill("sm.count=66,132")
        tab.get_by_label("Another axis").press("Enter")
        tab.locator("#sweep p", has_text="6 rows").wait_for(timeout=60000)
        front = json.loads(native("h200", [], json.dumps({"ask": "pareto", "rows": "expected", "objectives": "step_us:min,hidden:max", "axis": ["hidden=512:1536:512", "sm.count=66,132"],
                                                          "network": {"cell": "lstm", "batch": 4, "density": 0.1, "precision": "fp16"}})))["front"]
        self.assertEqual(tab.locator("#sweep .on-front").count(), len(front))
        tab.get_by_role("button", name="Bring the controls to row 4").press("Enter")
        self.settled(tab, "H=1536")
        self.assertIn("sm.count=66", tab.evaluate("() => location.hash"))

    def test_rows_of_the_command_are_dropped(self):
        tab = self.open()
        rows = BUILD / "page_rows.csv"
        subprocess.run([BUILD / "onchip", "sweep", "--chip", "a100", "--cell", "gru", "--density", "25%", "--axis", "hidden=512:1024:256", "--axis", "batch=1,2", "--column", "text=1", "-o", rows],
                       check=True, capture_output=True)
        self.addCleanup(rows.with_suffix(".manifest.json").unlink)
        self.addCleanup(rows.unlink)
        tab.evaluate("""text => { const data = new DataTransfer(); data.items.add(new File([text], 'rows.csv'));
                            dispatchEvent(new DragEvent('drop', {dataTransfer: data, cancelable: true})); }""", rows.read_text())
        tab.locator("#sweep p", has_text="6 rows").wait_for(timeout=60000)
        tab.locator("#sweep tbody tr", has_text="1024").first.click()
        self.assertIn("GRU H=1024", self.settled(tab, "A100"))

    def test_a_deep_network_shows_progress_and_has_a_largest_size(self):
        tab = self.open("#chip=h200&network=spdnn:4096x120&images=60000&alive=25%25")
        tab.get_by_label("Images", exact=True).press("ArrowRight")
        tab.locator("#command progress").wait_for(state="attached")
        self.settled(tab, "for all images")
        tab.evaluate("() => { location.hash = '#chip=h200&network=spdnn:16384x120'; }")
        tab.locator("#problem", has_text="more than").wait_for()

    def test_axe_finds_nothing_and_nothing_is_wider_than_the_window(self):
        for width in (360, 768, 1600):
            for scheme in ("light", "dark"):
                tab = self.open(width=width, scheme=scheme)
                tab.locator(".remedy").first.wait_for(timeout=60000)
                found = [violation["id"] + ": " + violation["nodes"][0]["html"][:200] for violation in Axe().run(tab).response["violations"]]
                self.assertEqual(found, [], f"{width} {scheme}")
                self.assertLessEqual(tab.evaluate("() => document.documentElement.scrollWidth"), width)

    def test_it_is_fast_enough(self):
        start = time.time()
        tab = self.open()
        first = time.time() - start
        tab.evaluate(WATCH)
        for key, name in (("sm.count", "SMs"), ("hidden", "Hidden size"), ("density", "Density")):
            slider = tab.get_by_label(name, exact=True)
            for i in range(20):
                slider.evaluate("(slider, value) => { slider.value = value; slider.dispatchEvent(new Event('input', {bubbles: true})); }", 450 + 7 * i)
                time.sleep(0.25)
        moves, longest = tab.evaluate("() => [moves, longest]")
        moves.sort()
        print(f"first answer {first:.2f} s; slider to answer: {len(moves)} moves, median {statistics.median(moves):.0f} ms, "
              f"p95 {moves[int(0.95 * len(moves))]:.0f} ms; longest task {longest:.0f} ms; "
              f"the file: {PAGE.stat().st_size} bytes")
        self.assertLess(PAGE.stat().st_size, 1_800_000)
        self.assertLess(len(gzip.compress(PAGE.read_bytes(), 9)), 600_000)


if __name__ == "__main__":
    unittest.main()
