// tests/itm/itm_programs.cpp -- runs one program for the ABI and prints its verdict.
// Shape:     itm_programs --list | --expected | --which | NAME
//            --list names; --expected "name<TAB>verdict"; --which the file that libitm is mapped
//            from; NAME prints the verdict. Exit code 0, or 2 for a wrong command line.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include "tests/itm/abi.h"
#include "tests/itm/program.h"

namespace {

// The first mapped file whose name has "libitm" in it.
std::string mapped_libitm() {
  std::ifstream maps("/proc/self/maps");
  std::string line;
  while (std::getline(maps, line)) {
    const std::size_t slash = line.find('/');
    if (slash == std::string::npos) continue;
    const std::size_t name = line.rfind('/');
    if (line.find("libitm", name) != std::string::npos) return line.substr(slash);
  }
  return "none";
}

int usage() {
  std::fputs("usage: itm_programs --list | --expected | --which | NAME\n", stderr);
  return 2;
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 2) return usage();
  const std::string what = argv[1];
  if (what == "--which") {
    std::printf("%s\n%s\n", mapped_libitm().c_str(), _ITM_libraryVersion());
    return 0;
  }
  for (const itm::Program &each : itm::programs()) {
    if (what == "--list") {
      std::printf("%s\n", each.name);
    } else if (what == "--expected") {
      std::printf("%s\t%s\n", each.name, each.expected);
    } else if (what == each.name) {
      std::printf("%s\n", each.run().c_str());
      return 0;
    }
  }
  if (what == "--list" || what == "--expected") return 0;
  std::fprintf(stderr, "itm_programs: no program is named %s\n", what.c_str());
  return usage();
}
