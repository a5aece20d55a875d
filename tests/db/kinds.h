// tests/db/kinds.h -- the kinds of files that dbopen() has: each test of db(3) runs with all.
#pragma once

#define TP_NO_SHORT_NAMES
#include <tp/paper.h>

#undef tp_lock

#include <stdlib.h>

#include <string>

#include <gtest/gtest.h>

namespace tmh::test {

enum class Kind { kPrivate, kShared, kTransactions };

[[nodiscard]] inline std::string name_of(Kind kind) {
  return kind == Kind::kPrivate ? "Private" : kind == Kind::kShared ? "Shared" : "Transactions";
}
[[nodiscard]] inline auto all_kinds() {
  return testing::Values(Kind::kPrivate, Kind::kShared, Kind::kTransactions);
}

// While it lives, named files are opened as that kind. It ends before the test's folder.
class OfKind {
 public:
  explicit OfKind(Kind kind) : kind_(kind) {
    if (kind == Kind::kPrivate) return;
    ::setenv("TP_DBFLAGS", kind == Kind::kShared ? "DB_SHARED" : "DB_SHARED|DB_TP", 1);
    ::setenv("TP_DURABILITY", "buffered", 1);
  }
  // The environment that dbopen() has opened ends, too: its folder is the test's.
  ~OfKind() {
    if (tp_paper_env() != nullptr) {
      EXPECT_EQ(tp_paper_close(), TP_OK) << tp_last_error();
    }
    ::unsetenv("TP_DBFLAGS");
    ::unsetenv("TP_DURABILITY");
  }
  [[nodiscard]] bool is_private() const { return kind_ == Kind::kPrivate; }
  OfKind(const OfKind &) = delete;
  OfKind &operator=(const OfKind &) = delete;

 private:
  const Kind kind_;
};

}  // namespace tmh::test
