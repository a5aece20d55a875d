// tests/itm/pages/pages_programs.cpp -- runs one test.
// Shape:     itm_pages_programs kills|faults|words|privatise|joined|waits|owned [--deaths N]
//                               [--seconds N] [--seed N] [--only N]
//            Exit code 0; 1: something is wrong; 2: a wrong command line.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/itm/pages/told.h"

namespace {

using itm::pages::Options;

int usage() {
  std::fputs(
      "usage: itm_pages_programs kills|faults|words|privatise|joined|waits|owned [--deaths N] "
      "[--seconds N] [--seed N] [--only N]\n",
      stderr);
  return 2;
}

bool read_number(const char *text, int most, int *out) {
  char *end = nullptr;
  const long value = std::strtol(text, &end, 10);
  *out = static_cast<int>(value);
  return end != text && *end == '\0' && value >= 1 && value <= most;
}

using Test = void (*)(const Options &);

Test test_of(const std::string &name) {
  if (name == "kills") return itm::pages::kills;
  if (name == "faults") return itm::pages::faults;
  if (name == "words") return itm::pages::words;
  if (name == "privatise") return itm::pages::privatise;
  if (name == "joined") return itm::pages::joined;
  if (name == "owned") return itm::pages::owned;
  return name == "waits" ? itm::pages::waits : nullptr;
}

}  // namespace

int main(int argc, char **argv) {
  if (argc < 2 || argc % 2 != 0) return usage();
  const Test test = test_of(argv[1]);
  if (test == nullptr) return usage();
  Options options;
  for (int i = 2; i < argc; i += 2) {
    const std::string name = argv[i];
    int value = 0;
    const int most = name == "--deaths" ? 1000 : 1'000'000;
    if (!read_number(argv[i + 1], most, &value)) return usage();
    if (name == "--deaths") {
      options.deaths = value;
    } else if (name == "--seconds") {
      options.seconds = value;
    } else if (name == "--only") {
      options.only = value;
    } else if (name == "--seed") {
      options.seed = static_cast<std::uint32_t>(value);
    } else {
      return usage();
    }
  }
  test(options);
  const int wrong = itm::pages::told().wrong;
  if (wrong != 0) std::fprintf(stderr, "%d wrong, seed %u\n", wrong, options.seed);
  return wrong == 0 ? 0 : 1;
}
