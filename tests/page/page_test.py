# SPDX-License-Identifier: Apache-2.0
"""The page in Chromium, from disk: tests/page/run BUILD. Answers are compared with the library of the same build."""
import json
import os
import pathlib
import random
import re
import statistics
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

    def test_answers_are_those_of_the_library(self):
        tab = self.open()
        drawn = questions.draw(COUNT, seed=46)
        refused = 0
        for question, answer in zip(drawn, self.asked(tab, drawn)):
            expected = native(*question)
            refused += expected.startswith('{"error"')
            if expected.startswith('{"error"'):
                self.assertEqual(json.loads(answer), json.loads(expected), question)
            else:
                self.assertEqual(SECONDS.sub("", answer), SECONDS.sub("", expected), question)
        print(f"{COUNT} questions, {refused} of them refused: answers are equal byte for byte")
        self.assertLess(refused, COUNT // 3)

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
        self.settled(tab, "stays on the H200")

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
        tab.get_by_role("button", name="Pin as A").click()
        tab.get_by_label("gru", exact=True).check(force=True)
        self.settled(tab, "GRU")
        tab.locator("#compare table").wait_for(timeout=60000)
        tab.get_by_role("button", name="Swap A and B").click()
        self.settled(tab, "LSTM")

    def test_the_saved_page_opens_in_its_state(self):
        tab = self.open(STEP.replace("2048", "1024"))
        with tab.expect_download() as saved:
            tab.get_by_role("button", name="This page").click()
        copy = BUILD / "page_copy.html"
        saved.value.save_as(copy)
        self.addCleanup(copy.unlink)
        self.assertIn("H=1024", self.settled(self.open("", page=copy)))

    def test_training_and_deep_networks_are_answered(self):
        tab = self.open("#mode=train")
        self.assertIn("an iteration", self.settled(tab))
        tab.get_by_label("Sparse deep net").check(force=True)
        self.settled(tab, "for all images")

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
        tab.evaluate("() => onchip.watch()")
        for key, name in (("sm.count", "SMs"), ("hidden", "Hidden size"), ("density", "Density")):
            slider = tab.get_by_label(name, exact=True)
            for i in range(20):
                slider.evaluate("(slider, value) => { slider.value = value; slider.dispatchEvent(new Event('input', {bubbles: true})); }", 450 + 7 * i)
                time.sleep(0.25)
        moves, longest = tab.evaluate("() => onchip.watched()")
        moves.sort()
        print(f"first answer {first:.2f} s; slider to answer: {len(moves)} moves, median {statistics.median(moves):.0f} ms, "
              f"p95 {moves[int(0.95 * len(moves))]:.0f} ms; longest task {longest:.0f} ms; "
              f"the file: {PAGE.stat().st_size} bytes")
        self.assertLess(PAGE.stat().st_size, 1_800_000)


if __name__ == "__main__":
    unittest.main()
