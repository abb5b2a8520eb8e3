// SPDX-License-Identifier: Apache-2.0
// The opponents' view of kernels/library.hpp.
#pragma once

#include "kernels/library.hpp"
#include "kernels/opponents/opponent.hpp"
