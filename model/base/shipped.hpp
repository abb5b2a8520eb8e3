// SPDX-License-Identifier: Apache-2.0
// Folders of files that come with onchip: chips, measured data. An environment variable names another; else it is that
// of the installation around the program or library (share/onchip/NAME), else that of the sources it was built from.
#pragma once

#include <filesystem>

namespace onchip {

struct ShippedFolder {
  std::filesystem::path path;
  bool chosen = false;  // by the environment variable
};

ShippedFolder shipped_folder(const char* name, const char* variable, const char* of_sources);
ShippedFolder chips_folder();  // ONCHIP_CHIPS

}  // namespace onchip
