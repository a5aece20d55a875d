// tests/house/lives/recorder.h -- notes which functions a thread enters between begin() and end().
// The programs beside it are compiled with the library by -finstrument-functions, one file each,
// and write what lives.py reads: the addresses in order, then this process's mappings.
#pragma once

#include <cstddef>
#include <cstdio>

#define NOT_TRACED __attribute__((no_instrument_function))

namespace lives {

inline constexpr std::size_t kEntriesMax = 1u << 16;
inline void *entered[kEntriesMax];
inline std::size_t entry_count = 0;
inline thread_local bool is_noting = false;

NOT_TRACED inline void begin() { is_noting = true; }
NOT_TRACED inline void end() {
  is_noting = false;
  for (std::size_t i = 0; i < entry_count; ++i) std::printf("entered %p\n", entered[i]);
  std::FILE *maps = std::fopen("/proc/self/maps", "r");
  char line[4096];
  while (maps != nullptr && std::fgets(line, sizeof line, maps) != nullptr)
    std::printf("map %s", line);
  std::fflush(stdout);
}

}  // namespace lives

extern "C" {
NOT_TRACED void __cyg_profile_func_enter(void *function, void *) {
  if (lives::is_noting && lives::entry_count < lives::kEntriesMax)
    lives::entered[lives::entry_count++] = function;
}
NOT_TRACED void __cyg_profile_func_exit(void *, void *) {}
}
