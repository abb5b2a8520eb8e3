# SPDX-License-Identifier: Apache-2.0
"""Feed-forward networks from Python, by the CPU reference and by what engine there is."""
import itertools
import pathlib
import tempfile
import unittest

import onchip

try:
    import numpy
except ImportError:
    numpy = None
try:
    import scipy.sparse
except ImportError:
    scipy = None

# Two layers of two neurons: y = clip(W x + bias)
WEIGHTS = ([[1.0, 0.0], [0.5, -2.0]], [[0.0, 3.0], [1.0, 0.0]])


class Opened(unittest.TestCase):
    def test_a_network_tells_its_layers_and_what_runs_it(self):
        network = onchip.FeedForward("spdnn:1024x3", engine="reference")
        self.assertEqual((network.layers, network.neurons, network.plan), (3, (1024,) * 4, "reference"))

    def test_what_is_not_a_network_is_refused(self):
        with self.assertRaisesRegex(onchip.InputError, "unknown engine 'cpu'; expected one of automatic"):
            onchip.FeedForward("spdnn:1024x3", engine="cpu")
        with self.assertRaises(onchip.InputError):
            onchip.FeedForward("spdnn:1000x3")


@unittest.skipUnless(numpy, "no numpy")
class Running(unittest.TestCase):
    def expected(self, features, layers, logits):
        for layer, weights in enumerate(WEIGHTS[:layers], 1):
            features = features @ numpy.array(weights, numpy.float32).T
            if layer < len(WEIGHTS) or not logits:
                features = numpy.maximum(features, 0)
        return features

    def network(self, folder, engine, logits):
        for layer, rows in enumerate(WEIGHTS, 1):
            lines = [f"{r + 1} {c + 1} {v}" for r, row in enumerate(rows) for c, v in enumerate(row) if v]
            text = "\n".join(["%%MatrixMarket matrix coordinate real general", f"2 2 {len(lines)}", *lines, ""])
            pathlib.Path(folder, f"layer{layer}.mtx").write_text(text)
        return onchip.FeedForward(f"{folder}/" + (",logits=yes" if logits else ""), engine=engine)

    def test_files_run_with_the_results_of_numpy(self):
        images = numpy.array([[1, 0], [0, 1], [0, 0], [0.5, 2], [2, 0.25]], numpy.float32)
        begin, neuron = numpy.array([0, 1, 2, 2, 4, 6]), numpy.array([0, 1, 0, 1, 0, 1])
        value = images[images != 0]
        for engine, logits in itertools.product(("reference", "automatic"), (False, True)):
            with tempfile.TemporaryDirectory() as folder:
                network = self.network(folder, engine, logits)
                for given in (images, images.astype(float).tolist(), (begin, neuron, value)):
                    alive = numpy.flatnonzero(self.expected(images, 2, logits).any(axis=1))
                    self.assertEqual(network.categories(given).tolist(), alive.tolist())
                    for layers in (0, 1, 2):
                        found = network.features(given, layers)
                        self.assertEqual((found.dtype, found.shape), (numpy.float32, (5, 2)))
                        numpy.testing.assert_array_equal(found, self.expected(images, layers, logits))
                ones = (images != 0).astype(numpy.float32)
                numpy.testing.assert_array_equal(network.features((begin, neuron), 2), self.expected(ones, 2, logits))
                self.assertEqual(network.categories(images[:0]).tolist(), [])

    @unittest.skipUnless(scipy, "no scipy")
    def test_sparse_arrays_of_scipy_are_images_in_every_format(self):
        network = onchip.FeedForward("spdnn:1024x1", engine="reference")
        dense = (numpy.random.default_rng(1).random((5, 1024)) < 0.02).astype(numpy.float32)
        wanted = network.features(dense, 1)
        for kind in ("csr", "csc", "coo", "bsr", "lil", "dok", "dia"):
            for made in (getattr(scipy.sparse, f"{kind}_{what}")(dense) for what in ("array", "matrix")):
                numpy.testing.assert_array_equal(network.features(made, 1), wanted)
                with self.assertRaisesRegex(onchip.InputError, r"shape \[1024, 5\]; expected \[images, 1024\]"):
                    network.features(made.T, 1)
        row, column = dense.nonzero()
        order = numpy.arange(len(row))[::-1].repeat(2)  # neither sorted nor once
        twice = scipy.sparse.coo_array((numpy.full(len(order), 0.5, numpy.float32), (row[order], column[order])), dense.shape)
        numpy.testing.assert_array_equal(network.features(twice, 1), wanted)
        unsorted = scipy.sparse.csr_array(dense)
        unsorted.indices[: unsorted.indptr[1]] = unsorted.indices[: unsorted.indptr[1]][::-1].copy()
        unsorted.has_sorted_indices = False
        before = unsorted.indices.copy()
        numpy.testing.assert_array_equal(network.features(unsorted, 1), wanted)
        numpy.testing.assert_array_equal(unsorted.indices, before)

    def test_images_that_are_not_the_networks_are_refused(self):
        network = onchip.FeedForward("spdnn:1024x2", engine="reference")
        for images, message in (
            (numpy.ones((2, 1000)), r"shape \[2, 1000\]; expected \[images, 1024\]"),
            (numpy.ones(1024), r"shape \[1024\]; expected \[images, 1024\]"),
            (([0, 1], [1024]), "image 0 has neuron 1024; the network's inputs are 0 to 1023"),
            (([0, 2], [7, 6]), "image 0 has neuron 6 after 7"),
            (([0, 1], [2**32 + 1]), "neuron is not one dimension of int32"),
            (([0, 1], [0.5]), "neuron is not one dimension of int32"),
            (([0, 2], [7]), "neuron has 1 elements"),
            (([0, 1], [7], [1, 2]), "value has 2 elements"),
            (([0, -1], []), "neuron has 0 elements"),
            (([], []), "neuron has 0 elements"),
        ):
            with self.assertRaisesRegex(onchip.InputError, message):
                network.categories(images)
        with self.assertRaisesRegex(onchip.InputError, "'layers' is 3; expected 0 to 2"):
            network.features(numpy.ones((1, 1024)), 3)
