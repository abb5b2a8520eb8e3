# SPDX-License-Identifier: Apache-2.0
"""onchip.Stream on a GPU: a step's answers are those of the module."""
import signal
import subprocess
import sys
import textwrap
import time
import unittest

from .training_cases import OnAGpu  # without torch, all is skipped

import onchip
import torch


def _drawn(kind, hidden, layers, package=torch.nn, dtype=torch.float16, **options):
    torch.manual_seed(1)
    return getattr(package, kind)(hidden // 2, hidden, layers, **options).to("cuda", dtype)


class Streams(OnAGpu, unittest.TestCase):
    def test_steps_are_those_of_the_module(self):
        for kind, package, dtype, options in (
            ("LSTM", torch.nn, torch.float16, {}), ("GRU", onchip, torch.bfloat16, {"bias": False}), ("LSTM", onchip, torch.float16, {}),
        ):  # fmt: skip
            with self.subTest(kind=kind, dtype=dtype):
                module = _drawn(kind, 192, 3, package, dtype, **options)
                x = torch.randn(20, 2, 96, dtype=dtype)
                state = [torch.randn(3, 2, 192, device="cuda", dtype=dtype) for _ in "hc"]
                hx = tuple(state) if kind == "LSTM" else state[0]
                with torch.no_grad():
                    expected = module(x.cuda(), hx)[0].float().cpu()
                    zeros = module(x.cuda())[0].float().cpu()
                with onchip.Stream(module, batch=2) as stream:
                    self.assertIn("stream tiles=", stream.explain())
                    for begin, wanted in ((None, zeros), (hx, expected)):
                        stream.reset(begin)
                        y = torch.stack([stream(step) for step in x])
                        self.assertLess((y - wanted).norm(), 2e-3 * (8 if dtype == torch.bfloat16 else 1) * wanted.norm())
                        stream.reset(begin)
                        for step in x[:8]:
                            stream.send(step)
                        self.assertTrue(torch.equal(torch.stack([stream.receive() for _ in range(8)]), y[:8]))

    def test_new_weights_and_several_streams(self):
        one, other = _drawn("LSTM", 128, 2), _drawn("LSTM", 128, 2)
        with torch.no_grad():
            for parameter in other.parameters():
                parameter.mul_(0.5)
        x = torch.randn(10, 64, dtype=torch.half)
        with onchip.Stream(one, streams=3) as stream:
            y = [torch.stack([stream(step, index) for step in x]) for index in range(3)]
            self.assertTrue(torch.equal(y[0], y[1]) and torch.equal(y[0], y[2]))
            stream.load(other)
            stream.reset(stream=1)
            found = torch.stack([stream(step, 1) for step in x]).float()
            expected = other(x.cuda()[:, None])[0][:, 0].float().cpu()
            self.assertLess((found - expected).norm(), 2e-3 * expected.norm())

    def test_others_go_on_beside_an_idle_stream(self):
        module = _drawn("LSTM", 256, 3)
        x = torch.randn(128, dtype=torch.half)
        with onchip.Stream(module) as stream:
            for _ in range(10):
                stream(x)
                begin = time.perf_counter()
                torch.cuda.synchronize()
                torch.cuda.empty_cache()
                self.assertLess(time.perf_counter() - begin, 0.05)

    def test_what_is_refused(self):
        module = _drawn("LSTM", 64, 1)
        for what, options in ((torch.nn.Linear(2, 2), {}), (module, {"batch": 9}), (module, {"streams": 0}),
                              (torch.nn.LSTM(8, 8), {}), (_drawn("LSTM", 64, 1, bidirectional=True), {})):  # fmt: skip
            with self.assertRaises((TypeError, ValueError)):
                onchip.Stream(what, **options)
        with self.assertRaises(onchip.DoesNotFit):
            onchip.Stream(_drawn("LSTM", 2048, 4))
        stream = onchip.Stream(module)
        with self.assertRaises(ValueError):
            stream.receive()
        with self.assertRaises(ValueError):
            stream(torch.zeros(31))
        stream.close()
        with self.assertRaises(ValueError):
            stream(torch.zeros(32))

    def test_killed_hosts_leave_no_kernel(self):
        script = textwrap.dedent("""
            import onchip, torch
            stream = onchip.Stream(torch.nn.LSTM(128, 128, 2).half().cuda(), idle=4.0)
            x = torch.zeros(128, dtype=torch.half)
            print("asks", flush=True)
            while True:
                stream(x)
        """)
        for how in (signal.SIGKILL, signal.SIGINT, signal.SIGTERM):
            host = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            self.assertEqual(host.stdout.readline(), b"asks\n")
            time.sleep(0.05)
            host.send_signal(how)
            host.wait(timeout=10)
            host.stdout.close()
        module = _drawn("LSTM", 256, 3)
        with onchip.Stream(module) as stream:  # all SMs are free
            stream(torch.zeros(128))
