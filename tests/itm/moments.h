// tests/itm/moments.h -- moments of a clock, for calls that wait until one.
#pragma once

#include <time.h>

inline timespec in_ms(clockid_t clock, long ms) {
  timespec time{};
  clock_gettime(clock, &time);
  time.tv_nsec += ms * 1'000'000;
  time.tv_sec += time.tv_nsec / 1'000'000'000;
  time.tv_nsec %= 1'000'000'000;
  return time;
}
