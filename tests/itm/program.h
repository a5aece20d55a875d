// tests/itm/program.h -- a program for the ABI: a name, the verdict that is expected, a function.
// Invariant: (1) a verdict is a few words; it depends neither on time nor on the library's method.
//            (2) an expected verdict that begins with "dies" is the end of the process: "dies of 6"
//            is a signal, "dies with 1" an exit code; the program never returns then.
#pragma once

#include <sstream>
#include <string>
#include <vector>

namespace itm {

struct Program {
  const char *name;
  const char *expected;
  std::string (*run)();
};

inline std::vector<Program> &programs() {
  static std::vector<Program> all;
  return all;
}

struct Registered {
  Registered(const char *name, const char *expected, std::string (*run)()) {
    programs().push_back({name, expected, run});
  }
};

// Words of a verdict, one space between two.
template <typename... Words>
std::string say(const Words &...words) {
  std::ostringstream text;
  const char *gap = "";
  ((text << gap << words, gap = " "), ...);
  return text.str();
}

// A character is told as a number.
inline int number(unsigned char value) { return value; }

}  // namespace itm

#define ITM_PROGRAM(name, expected)                                                \
  static std::string name##_program();                                             \
  static const itm::Registered name##_registered{#name, expected, name##_program}; \
  static std::string name##_program()
