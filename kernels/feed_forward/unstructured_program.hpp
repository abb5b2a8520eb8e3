// SPDX-License-Identifier: Apache-2.0
// Inference by an unstructured plan: from the images to the categories, without the host in between.
#pragma once

#include "kernels/feed_forward/inference_program.hpp"
#include "model/feed_forward/plan/unstructured_layout.hpp"

#include <string>

namespace onchip {

CompileRequest unstructured_request(const UnstructuredGeometry& geometry, Precision weight_type,
                                    const std::string& architecture);

struct UnstructuredOptions {
  bool takes_lists = false;     // of inputs, with any values; else bitmaps
  bool keeps_features = false;  // of the images alive after the last layer, instead of their categories
};

// For a GPU of so many SMs. The layout must live until the program is loaded.
InferenceProgram unstructured_program(const UnstructuredLayout& layout, int most_images, int sms,
                                      const std::string& architecture, const UnstructuredOptions& options = {});

}  // namespace onchip
