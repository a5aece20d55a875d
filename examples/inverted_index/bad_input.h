// examples/inverted_index/bad_input.h -- the input or the command line is at fault; found before
// anything ran.
#pragma once

#include <stdexcept>

namespace inverted_index {

// what() is one sentence.
class BadInput : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace inverted_index
