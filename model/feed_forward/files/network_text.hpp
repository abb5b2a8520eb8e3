// SPDX-License-Identifier: Apache-2.0
// A network, and its images, by one line of text: a source, and key=value behind commas.
//   spdnn:1024x120                the challenge's network
//   random:neurons=1024,layers=8  drawn at random; neurons=784-300-10: of the input, then of each layer
//   PATH                          files (model/feed_forward/files/network_files.hpp)
// Keys, each of the sources that its row in kNetworkKeys names:
//   degree=32 | uniform:0..64 | power-law:1..2000   weights of a row
//   blocks=16                     so many rows have the same columns
//   values=0.0625 | uniform:-1..1 of the weights; of other sources: anew
//   signs=positive | mixed | 0.3  share of the weights whose sign is turned; mixed: half of them
//   bias=-0.3 | uniform:-0.4..-0.2
//   clip=32 | none
//   logits=yes                    the last layer has neither ReLU nor clip
//   moved=0.1                     share of the weights that go to other columns
//   shuffle=yes                   the neurons of each layer
//   transpose=yes                 the file's matrices are [inputs, outputs], as Keras saves them
//   order=input+hidden            of the layers of a .safetensors file, where their names and sizes do not say it
//   precision=fp16                of the weights, which are rounded to it; fp8: to e4m3, times a power of two of a
//   layer seed=1                        of all that is drawn
#pragma once

#include "model/feed_forward/inputs.hpp"
#include "model/feed_forward/network.hpp"

#include <string_view>

namespace onchip {

// Throws InputError for what it does not understand, with the nearest valid name.
FeedForward read_network(std::string_view text);

// With its weights rounded, where it is asked for a layer; which throws InputError as check_representable().
FeedForward rounded_to(Precision precision, FeedForward network);

// "digits:60000", "digits:60000,seed=2", or a file (open_images).
Inputs read_images(std::string_view text, int neurons);

// At most so many of these images, evenly spread over them; synthetic ones beside them are not made.
struct ImageSample {
  Inputs inputs;
  int of = 0;             // images that there are
  bool is_binary = true;  // none of them has a value but 0 and 1
};
ImageSample sample_images(std::string_view text, int neurons, int most);

}  // namespace onchip
