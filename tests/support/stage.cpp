// tests/support/stage.cpp -- opening the stage, and the two-process play.
#include "tests/support/stage.h"

namespace tmh::test {

SegmentOptions raw_segment(std::uint64_t size_bytes) {
  SegmentOptions options;
  options.layout = Layout::kRaw;
  options.size_bytes = size_bytes;
  return options;
}

Actor::Actor(const std::string &folder, const DomainOptions &options)
    : domain(Domain::open(folder, options)),
      first(domain.map("first.raw", raw_segment())),
      second(domain.map("second.raw", raw_segment())) {}

std::uint64_t &Actor::word(std::uint64_t page) const {
  return *reinterpret_cast<std::uint64_t *>(first.data() + page * kPageBytes);
}

std::uint64_t &Actor::second_word(std::uint64_t page) const {
  return *reinterpret_cast<std::uint64_t *>(second.data() + page * kPageBytes);
}

void Actor::commit(std::uint64_t page, std::uint64_t value) const {
  atomically(domain, [&] { set(page, value); });
}

std::uint64_t Actor::committed(std::uint64_t page) const {
  return query(domain, [&] { return get(page); });
}

void ModeTest::run_pair(const std::string &policy, const Role &one, const Role &two) const {
  const Shared<Turn> turn;
  Children children;
  for (const Role *role : {&one, &two}) {
    children.spawn(role == &one ? "one" : "two", [&, role] {
      try {
        Actor self(folder_.path(), options(policy));
        (*role)(self, *turn);
        self.domain.close();
      } catch (...) {
        turn->give_up();
        throw;
      }
    });
  }
  children.expect_success();
}

void expect_error(Errc code, const std::function<void()> &call, const std::string &part) {
  try {
    call();
    ADD_FAILURE() << "expected error " << static_cast<int>(code) << " (" << message(code)
                  << "), but nothing was thrown";
  } catch (const Error &error) {
    EXPECT_EQ(error.errc(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
        << "\"" << error.what() << "\" lacks \"" << part << "\"";
    EXPECT_NE(std::string(error.what()).find(message(code)), std::string::npos) << error.what();
  }
}

}  // namespace tmh::test
