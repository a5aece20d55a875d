// tests/support/modes.cpp -- asks the library which modes work here.
#include "tests/support/modes.h"

#include <cstring>
#include <filesystem>
#include <iterator>
#include <map>
#include <ostream>

#include <gtest/gtest.h>
#include <tmh/domain.hpp>

#include "tests/support/children.h"
#include "tests/support/durable_folder.h"
#include "tests/support/shared.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {

namespace {
// What is refused there becomes the default.
std::string without_conflict(const std::string &policy) {
  Policy parsed;
  EXPECT_EQ(parse(policy, &parsed), Errc::kOk);
  parsed.conflict = Policy{}.conflict;
  return to_string(parsed);
}

bool is_volatile(const Mode &mode) {
  return mode.durability == Durability{} || mode.durability == Durability::kNone;
}
}  // namespace

std::vector<Mode> page_modes() {
  return modes_where(kModes, [](const Mode &mode) { return mode.levels == Levels::kPage; });
}

std::vector<Mode> lazy_modes() {
  std::vector<Mode> modes(std::begin(kDurableHybridModes), std::end(kDurableHybridModes));
  for (const Mode &mode : kModes)
    if (mode.detection == Detection::kLazy) modes.push_back(mode);
  return modes;
}

std::vector<Mode> hybrid_modes() {
  return modes_where(lazy_modes(), [](const Mode &mode) { return mode.levels == Levels::kHybrid; });
}

bool decides_conflicts(const Mode &mode) {
  return mode.levels == Levels::kHybrid || mode.detection == Detection::kEager;
}

DomainOptions options_for(const Mode &mode, const std::string &policy) {
  DomainOptions options;
  options.policies.detection = mode.detection;
  options.tracking = mode.tracking;
  options.policies.conflict =
      policy.empty() || decides_conflicts(mode) ? policy : without_conflict(policy);
  options.levels = mode.levels;
  options.line = mode.line;
  options.durability = mode.durability;
  options.policies.isolation = mode.isolation;
  if (!is_volatile(mode)) options.log_file_bytes = kSmallLogBytes;
  return options;
}

std::string place_for(const Mode &mode) {
  return is_volatile(mode) ? memory_folder() : std::filesystem::temp_directory_path().string();
}

std::string why_unavailable(const Mode &mode) {
  static std::map<std::string, std::string> known;
  if (const auto found = known.find(mode.name); found != known.end()) return found->second;
  struct Answer {
    char text[512];
  };
  Shared<Answer> answer;
  expect_child(std::string("probe of ") + mode.name, [&] {
    const TempFolder folder(place_for(mode));
    try {
      Domain domain = Domain::open(folder.path(), options_for(mode));
      domain.close();
    } catch (const Error &error) {
      if (error.errc() != Errc::kTrackingUnavailable && error.errc() != Errc::kRtmUnavailable)
        throw;
      std::strncpy(answer->text, error.what(), sizeof answer->text - 1);
    }
  });
  return known[mode.name] = answer->text;
}

void PrintTo(const Mode &mode, std::ostream *out) { *out << mode.name; }

std::string mode_name(const testing::TestParamInfo<Mode> &info) { return info.param.name; }

}  // namespace tmh::test
