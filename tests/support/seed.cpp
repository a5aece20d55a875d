// tests/support/seed.cpp -- where the seed comes from.
#include "tests/support/seed.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include <gtest/gtest.h>

namespace tmh::test {

std::uint64_t environment_number(const char *name, std::uint64_t otherwise) {
  const char *text = std::getenv(name);
  if (text == nullptr || *text == '\0') return otherwise;
  char *end = nullptr;
  errno = 0;
  const std::uint64_t number = std::strtoull(text, &end, 10);
  if (errno != 0 || *end != '\0' || number == 0) {
    ADD_FAILURE() << name << " is \"" << text << "\", not a positive number";
    return otherwise;
  }
  return number;
}

namespace {

std::uint64_t choose_seed() {
  std::random_device device;
  const std::uint64_t chosen = environment_number("TMH_SEED", std::uint64_t{device()} + 1);
  std::printf("TMH_SEED=%llu repeats this run\n", static_cast<unsigned long long>(chosen));
  std::fflush(stdout);
  return chosen;
}

// rapidcheck reads its parameters at the first property, long after static initialisation.
const bool kRapidcheckSeeded = [] {
  const char *text = std::getenv("TMH_SEED");
  if (text != nullptr && *text != '\0')
    setenv("RC_PARAMS", ("seed=" + std::string(text)).c_str(), 0);
  return true;
}();

}  // namespace

std::uint64_t seed() {
  static_cast<void>(kRapidcheckSeeded);
  static const std::uint64_t chosen = choose_seed();
  return chosen;
}

}  // namespace tmh::test
