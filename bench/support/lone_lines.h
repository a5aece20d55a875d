// bench/support/lone_lines.h -- memory with level 1 on it, and nothing above: for benches that
// measure that level alone.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include <tmh/error.hpp>

#include "levels/line/line_memory.h"
#include "levels/line/releaser.h"
#include "levels/line/software.h"
#include "storage/home.h"

namespace tmh::bench {

class LoneLines {
 public:
  LoneLines(const std::string &folder, std::size_t bytes) {
    expect_ok(home_.open(folder + "/data", 0, bytes, bytes, true), "home");
    bool found = false;
    expect_ok(lines_.open(folder, &found), "line memory");
    expect_ok(lines_.add_segment({0, home_.base(), bytes, bytes, &home_}), "segment");
  }
  // For the calling thread; this object outlives it.
  [[nodiscard]] std::unique_ptr<line::SoftwareThread> thread() {
    auto made = std::make_unique<line::SoftwareThread>(lines_, above_);
    expect_ok(made->attach(0, 1), "context");
    return made;
  }
  [[nodiscard]] std::byte *base() const noexcept { return home_.base(); }

 private:
  static void expect_ok(Errc error, const char *what) {
    if (error != Errc::kOk) throw Error(error, what);
  }
  storage::Home home_;
  line::LineMemory lines_;
  line::NoReleaser above_;
};

}  // namespace tmh::bench
