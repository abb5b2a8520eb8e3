# SPDX-License-Identifier: Apache-2.0
"""onchip.LSTM on a GPU: random shapes, in training, in graphs."""
import copy
import unittest

from .training_cases import OnAGpu, pair  # without torch, all is skipped

import onchip
import torch


class Training(OnAGpu):
    def test_same_bits_in_every_run_with_other_work_beside_it(self):
        fast, _ = pair(torch.float16, "cuda", 512, 512, num_layers=2)
        input = torch.randn(64, 16, 512, device="cuda", dtype=torch.float16)
        other, busy = torch.cuda.Stream(), torch.randn(1024, 1024, device="cuda")

        def run():
            return torch.autograd.grad(fast(input)[0].float().square().sum(), fast.parameters())

        first = run()
        for number in range(20):
            with torch.cuda.stream(other):
                for _ in range(number):
                    busy @ busy
            for one, again in zip(first, run()):
                self.assertTrue(torch.equal(one, again))

    def test_training_with_autocast_and_a_grad_scaler(self):
        torch.manual_seed(1)
        model = torch.nn.ModuleList([torch.nn.LSTM(32, 64, num_layers=2), torch.nn.Linear(64, 1)]).cuda()
        both = [model, onchip.replace(copy.deepcopy(model))]
        input = torch.randn(20, 8, 32, device="cuda")
        target = input.mean(-1, keepdim=True).cumsum(0)
        losses = []
        for lstm, linear in both:
            parameters = [*lstm.parameters(), *linear.parameters()]
            optimizer, scaler = torch.optim.Adam(parameters, 1e-2), torch.cuda.amp.GradScaler()
            of_model = []
            for number in range(30):
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = (linear(lstm(input)[0]) - target).square().mean()
                scaled = scaler.scale(loss * float("inf") if number == 5 else loss)
                optimizer.zero_grad()
                scaled.backward()
                before, scale = lstm.weight_hh_l0.clone(), scaler.get_scale()
                scaler.step(optimizer)
                scaler.update()
                if number == 5:  # the scaler has seen infinity or NaN
                    self.assertTrue(torch.equal(before, lstm.weight_hh_l0))
                    self.assertLess(scaler.get_scale(), scale)
                of_model.append(loss.item())
            self.assertEqual(lstm.weight_hh_l0.grad.dtype, torch.float32)
            losses.append(of_model)
        self.assertTrue(both[1][0].explain().startswith("on the chip"))
        self.assertLess(losses[1][-1], 0.5 * losses[1][0])
        self.assertLess(abs(losses[1][-1] - losses[0][-1]), 0.2 * losses[0][0])

    def test_a_graph_of_a_whole_iteration(self):
        torch.manual_seed(1)
        lstm = onchip.LSTM(64, 128, num_layers=2).half().cuda()
        optimizer = torch.optim.SGD(lstm.parameters(), 1e-3)
        input = torch.randn(20, 8, 64, device="cuda", dtype=torch.float16)

        def iterate():
            optimizer.zero_grad(set_to_none=True)
            lstm(input)[0].float().square().mean().backward()
            optimizer.step()

        start = copy.deepcopy(lstm.state_dict())
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                iterate()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            iterate()
        batches = [torch.randn_like(input) for _ in range(4)]
        ends = []
        for run in (graph.replay, iterate):
            lstm.load_state_dict(start)
            for batch in batches:
                input.copy_(batch)
                run()
            ends.append([parameter.detach().clone() for parameter in lstm.parameters()])
        for one, other in zip(*ends):
            self.assertTrue(torch.equal(one, other))

    def test_gradients_of_gradients(self):
        fast, exact = pair(torch.float16, "cuda", 19, 24)
        input = torch.randn(5, 3, 19, device="cuda", dtype=torch.float16)
        found = []
        for module, x in ((fast, input.clone()), (exact, input.double())):
            x.requires_grad_()
            with torch.backends.cudnn.flags(enabled=module is fast):  # cuDNN has none
                (slope,) = torch.autograd.grad(module(x)[0].sum(), x, create_graph=True)
                found.append(torch.autograd.grad(slope.square().sum(), module.weight_hh_l0)[0].double())
        self.assertLess(((found[0] - found[1]).norm() / found[1].norm()).item(), 2e-2)


if __name__ == "__main__":
    unittest.main()
