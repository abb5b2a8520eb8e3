// SPDX-License-Identifier: Apache-2.0
// Unsigned integers by their bits; NVRTC has no <cstdint>.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
