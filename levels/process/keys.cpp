// levels/process/keys.cpp -- finds out whether the processor has keys, and takes three.
#include "levels/process/keys.h"

#include <cpuid.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstring>

#include "levels/process/ground/ground.h"

namespace tmh::itm::pages {

void look_for_keys() noexcept {
  TMH_ASSERT(!has_keys());
  const char *const wanted = secure_getenv("TMH_ITM_KEYS");
  if (wanted != nullptr && std::strcmp(wanted, "off") == 0) return;
  if (wanted != nullptr && *wanted != '\0' && std::strcmp(wanted, "auto") != 0)
    std::fprintf(stderr, "libitm (tmh): TMH_ITM_KEYS: %s is neither auto nor off\n", wanted);
  std::uint32_t size = 0, offset = 0, unused1 = 0, unused2 = 0;
  if (__get_cpuid_count(0xd, 9, &size, &offset, &unused1, &unused2) == 0 || offset == 0) return;
  runtime_key = pkey_alloc(0, 0);
  if (runtime_key >= 0) key_rights_offset = offset;
}

void take_keys() noexcept {
  TMH_ASSERT(copy_key < 0 && shared_key < 0);
  if (!has_keys()) return;
  copy_key = pkey_alloc(0, 0);
  shared_key = pkey_alloc(0, 0);
  if (copy_key < 0 || shared_key < 0) key_rights_offset = 0;  // the program has the others
  if (has_keys()) return;
  if (copy_key >= 0) pkey_free(copy_key);
  pkey_free(runtime_key);
  copy_key = shared_key = runtime_key = -1;
}

}  // namespace tmh::itm::pages
