/* SPDX-License-Identifier: Apache-2.0 */
/* The largest pruned LSTM that stays on a chip, by an installed onchip:
 *   cmake -S . -B build -DCMAKE_PREFIX_PATH=PREFIX && cmake --build build && build/largest h200 0.1 */
#include <onchip.h>

#include <stdio.h>
#include <stdlib.h>

int main(int argument_count, char** arguments) {
  onchip_network network = {sizeof network, ONCHIP_LSTM, ONCHIP_FP16, 0, 4, 0, ONCHIP_TIER_SHARED_MEMORY};
  onchip_chip* chip = NULL;
  onchip_error error;
  int32_t hidden = 0;
  onchip_status status;
  if (argument_count != 3) {
    fprintf(stderr, "usage: largest CHIP DENSITY\n");
    return 2;
  }
  network.density = atof(arguments[2]);
  status = onchip_chip_create(arguments[1], &chip, &error);
  if (status == ONCHIP_OK) {
    status = onchip_largest_hidden(chip, &network, 32, &hidden, &error);
  }
  onchip_chip_destroy(chip);
  if (status != ONCHIP_OK) {
    fprintf(stderr, "largest: %s\n", error.message);
    return 2;
  }
  printf("%d\n", hidden);
  return 0;
}
